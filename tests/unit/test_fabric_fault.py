"""The command that sets faults in the simulated fabric: what ibsim receives for each command."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "roles" / "fabric" / "files" / "rackwright-fabric-fault"
NETLIST = """caguid=0x1
Ca 1 "worker0/mlx5_0"  # "worker0 mlx5_0"
[1] "leaf-su1-r0"[1]  # lid 0 lmc 0 "leaf-su1-r0" lid 0 4xNDR

Ca 1 "worker0/mlx5_1"  # "worker0 mlx5_1"
[1] "leaf-su1-r1"[1]  # lid 0 lmc 0 "leaf-su1-r1" lid 0 4xNDR

Switch 64 "leaf-su1-r0"  # "leaf-su1-r0"
[1] "worker0/mlx5_0"[1]  # "worker0 mlx5_0" lid 0 4xNDR
[9] "spine-01"[1]  # lid 0 lmc 0 "spine-01" lid 0 4xNDR
"""


@pytest.fixture(scope="module")
def command():
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader = importlib.machinery.SourceFileLoader("rackwright_fabric_fault", str(FILE))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


@pytest.fixture
def order(command, tmp_path):
    """Gives a command; (exit status, what ibsim received, whether the subnet manager was waited for)."""
    netlist = tmp_path / "fabric.netlist"
    netlist.write_text(NETLIST)

    def give(*words):
        told, waited = [], []
        status = command.main(list(words), str(netlist), told.extend, lambda: waited.append(True))
        return status, told, bool(waited)

    return give


def test_a_cable_is_pulled_and_put_back(order):
    assert order("unplug", "worker0/mlx5_0") == (0, ['Unlink "worker0/mlx5_0"[1]'], False)
    assert order("plug", "worker0/mlx5_0:1") == (0, ['ReLink "worker0/mlx5_0"[1]'], True)
    assert order("unplug", "leaf-su1-r0:9") == (0, ['Unlink "leaf-su1-r0"[9]'], False)


def test_a_leaf_goes_down_whole(order):
    assert order("unplug", "leaf-su1-r0") == (0, ['Unlink "leaf-su1-r0"'], False)


def test_two_cables_change_places(order):
    assert order("swap", "worker0/mlx5_0", "worker0/mlx5_1") == (
        0,
        [
            'Unlink "worker0/mlx5_0"[1]',
            'Unlink "worker0/mlx5_1"[1]',
            'Link "worker0/mlx5_0"[1] "leaf-su1-r1"[1]',
            'Link "worker0/mlx5_1"[1] "leaf-su1-r0"[1]',
        ],
        True,
    )


def test_errors_are_counted(order):
    told = 'PerformanceSet "leaf-su1-r0"[1] PortCounters.SymbolErrorCounter='
    assert order("errors", "leaf-su1-r0:1", "7") == (0, [told + "7"], True)
    assert order("errors", "leaf-su1-r0:1") == (0, [told + "4242"], True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "usage"),
        (("break", "all"), "usage"),
        (("errors", "leaf-su1-r0:1", "many"), "usage"),
        (("unplug", "worker9/mlx5_0"), "worker9/mlx5_0: not an end of a cable"),
        (("unplug", "leaf-su1-r0:60"), "leaf-su1-r0:60: not an end of a cable"),
        (("errors", "leaf-su1-r0"), "leaf-su1-r0: not an end of a cable"),
    ],
)
def test_what_is_no_order_changes_nothing(order, capsys, words, said):
    assert order(*words) == (2, [], False)
    assert said in capsys.readouterr().err


def test_without_the_simulation_it_says_so(command, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "CONSOLE", str(tmp_path / "nothing"))
    netlist = tmp_path / "fabric.netlist"
    netlist.write_text(NETLIST)
    assert command.main(["unplug", "worker0/mlx5_0"], str(netlist)) == 2
    assert "check that rackwright-ibsim runs" in capsys.readouterr().err
