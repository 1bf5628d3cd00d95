"""All collectors; units, fabric and storage on outputs of their tools: in order, with faults, and of other releases."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest

from rackwright.checks.cluster.probes import identity
from rackwright.checks.cluster.probes.nvidia_smi import ENDS

from .conftest import Collect, module, success

SUBJECTS = ("units", "slurm", "gpu", "fabric", "storage")
CAPTURED = Path(__file__).parents[1] / "captured"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_examples_in_docstrings(subject: str) -> None:
    assert doctest.testmod(module(subject)).failed == 0


@pytest.mark.parametrize("subject", ["units", "slurm", "gpu", "fabric"])
def test_missing_tool_is_no_success(collect: Collect, subject: str) -> None:
    found = collect(subject, {})
    assert found[success(subject)] == 0
    assert {name.split("{")[0] for name in found} == {"rackwright_collector_success", "rackwright_collector_seconds"}


UNIT = "Id={}\nActiveState={}\nNRestarts={}\n\n"
FAILED_UNITS = (
    "a.service loaded failed failed A\nuser@2001.service loaded failed failed User Manager\n"
    "\u25cf session-3.scope loaded failed failed Session 3\n"
    "systemd-coredump@7-812-0.service loaded failed failed Process Core Dump\n"
)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(UNIT.format("munge.service", "active", 0) + UNIT.format("slurmd.service", "active", 2), (1, 1), id="active"),
        pytest.param(UNIT.format("munge.service", "active", 0) + UNIT.format("slurmd.service", "failed", 5), (1, 0), id="failed"),
        pytest.param(UNIT.format("munge.service", "reloading", 0) + UNIT.format("slurmd.service", "inactive", 0), (1, 0), id="stopped"),
        pytest.param(UNIT.format("munge.service", "activating", 0), (0, 0), id="unit-not-listed"),
        pytest.param("ActiveState=active\nId=munge.service\n\nId=slurmd.service\nActiveState=active\n", (1, 1), id="other-order"),
    ],
)
def test_units(collect: Collect, shown: str, expected: tuple[int, int]) -> None:
    found = collect("units", {"systemctl show": shown, "systemctl list-units": FAILED_UNITS})
    assert found['rackwright_unit_active{name="munge.service"}'] == expected[0]
    assert found['rackwright_unit_active{name="slurmd.service"}'] == expected[1]
    assert found["rackwright_units_failed"] == 1
    assert found['rackwright_certificate_not_after_seconds{name="node_exporter"}'] == 1800000000
    assert found[success("units")] == 1


LINK = "{} 15 {} 0xa088c20300001301 4x NDR - {} 7 {} 0xfc6a1c0300000700 ( '{}' - '{}' )\n"
CABLES = [
    LINK.format("CA", 1, "SW", 1, "worker0 mlx5_0", "leaf-su1-r0"),
    LINK.format("CA", 1, "SW", 2, "worker1 mlx5_0", "leaf-su1-r0"),
    LINK.format("SW", 9, "SW", 1, "leaf-su1-r0", "spine-01"),
    "SW     7 64 0xfc6a1c0300000700 4x SDR                                    'leaf-su1-r0'\n",
]
MASTER = "sminfo: sm lid 1 sm guid 0xa088c20300001301, activity count 77 priority 0 state 3 SMINFO_MASTER\n"
CLEAN = (CAPTURED / "fabric-errors" / "good.txt").read_text()
FABRIC = {"sminfo": MASTER, "ibnetdiscover": "".join(CABLES), "ibqueryerrors": CLEAN}


def cable(found: dict[str, float], a: str) -> float | None:
    return next((value for name, value in found.items() if name.startswith("rackwright_fabric_cable_up{") and f'a="{a}"' in name), None)


@pytest.mark.parametrize(
    ("links", "up", "unplanned"),
    [
        pytest.param("".join(CABLES), (1, 1, 1), 0, id="as-planned"),
        pytest.param("".join(CABLES[1:]), (0, 1, 1), 0, id="unplugged"),
        pytest.param("".join(CABLES).replace(" 7 1 0x", " 7 3 0x"), (0, 1, 1), 1, id="wrong-port"),
        pytest.param("".join(CABLES).replace("leaf-su1-r0", "MF0;leaf-su1-r0:MQM9700/U1"), (1, 1, 1), 0, id="managed-switch"),
        pytest.param("".join(CABLES).replace(" mlx5_0", ".example.net mlx5_0"), (1, 1, 1), 0, id="names-with-domain"),
        pytest.param("".join(CABLES).replace("\n", "\r\n").replace("\r\n", "\n"), (1, 1, 1), 0, id="carriage-returns"),
    ],
)
def test_fabric_cables(collect: Collect, links: str, up: tuple[int, ...], unplanned: int) -> None:
    links = links.replace(" 7 3 0xfc6a1c0300000700 ( 'leaf-su1-r0' - 'spine-01'", " 7 1 0xfc6a1c0300000700 ( 'leaf-su1-r0' - 'spine-01'")
    found = collect("fabric", {**FABRIC, "ibnetdiscover": links})
    assert (cable(found, "worker0/mlx5_0"), cable(found, "worker1/mlx5_0"), cable(found, "leaf-su1-r0")) == up
    assert found["rackwright_fabric_cables_unplanned"] == unplanned
    assert found[success("fabric")] == 1


def test_fabric_cable_to_unnamed_device_is_left_out(collect: Collect) -> None:
    """A node whose adapters have no name yet is no missing cable; the others are reported, and so is a port without a link."""
    unnamed = "".join(CABLES).replace("worker0 mlx5_0", "MT4129 ConnectX7   Mellanox Technologies")
    found = collect("fabric", {**FABRIC, "ibnetdiscover": unnamed})
    assert (cable(found, "worker0/mlx5_0"), cable(found, "worker1/mlx5_0")) == (None, 1)
    assert found["rackwright_fabric_names_match_plan"] == 1


def test_fabric_chips_of_a_switch_are_apart(collect: Collect) -> None:
    """Two chips with one host name both have a port 1: neither is the planned switch, and no cable is up by their sum."""
    chips = "".join(CABLES).replace("'leaf-su1-r0' - 'spine-01'", "'MF0;leaf-su1-r0:CS8500/L01/U2' - 'spine-01'")
    chips = chips.replace("'leaf-su1-r0'", "'MF0;leaf-su1-r0:CS8500/L01/U1'")
    found = collect("fabric", {**FABRIC, "ibnetdiscover": chips})
    assert [cable(found, end) for end in ("worker0/mlx5_0", "worker1/mlx5_0", "leaf-su1-r0")] == [None, None, None]


def test_fabric_with_other_names_has_no_missing_cables(collect: Collect) -> None:
    found = collect("fabric", {**FABRIC, "ibnetdiscover": "".join(CABLES).replace("mlx5_0", "HCA-1")})
    assert found["rackwright_fabric_names_match_plan"] == 0
    assert cable(found, "worker0/mlx5_0") is None


def test_fabric_without_subnet_manager(collect: Collect) -> None:
    found = collect("fabric", {**FABRIC, "sminfo": "ibwarn: [7] mad_rpc: timeout\nsminfo: iberror: failed: query\n"})
    assert found["rackwright_fabric_subnet_manager_up"] == 0
    assert found[success("fabric")] == 1 and cable(found, "worker0/mlx5_0") is None


def test_fabric_counters(collect: Collect) -> None:
    found = collect("fabric", {**FABRIC, "ibqueryerrors": (CAPTURED / "fabric-errors" / "errors.txt").read_text()})
    assert found['infiniband_port_link_downed_total{device="worker1/mlx5_4",port="1"}'] == 3
    assert found['infiniband_port_symbol_error_total{device="leaf-su1-r2",port="1"}'] == 4242
    assert found['infiniband_port_symbol_error_total{device="worker0/mlx5_0",port="1"}'] == 0


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"ibnetdiscover": ""}, id="no-port"),
        pytest.param({"ibqueryerrors": "Query SA failed: Connection timed out; sa call path_query failed\n"}, id="counters-unread"),
        pytest.param({"sminfo": "status 124"}, id="no-answer"),
    ],
)
def test_fabric_without_answer(collect: Collect, answers: dict[str, str]) -> None:
    found = collect("fabric", {**FABRIC, **answers})
    assert found[success("fabric")] == 0 and cable(found, "worker0/mlx5_0") is None


@pytest.mark.parametrize(
    ("mounted", "answer", "expected"),
    [
        pytest.param(True, (1000, 500), (1, 1, 500), id="mounted"),
        pytest.param(True, None, (1, 0, None), id="hangs"),
        pytest.param(False, (1000, 500), (0, None, None), id="not-mounted"),
    ],
)
def test_storage(
    collect: Collect, monkeypatch: pytest.MonkeyPatch, mounted: bool, answer: tuple[int, int] | None, expected: tuple[float | None, ...]
) -> None:
    storage = module("storage")
    monkeypatch.setattr(storage, "mounted", lambda _: {"/mnt/sharedfs"} if mounted else {"/"})
    monkeypatch.setattr(storage, "space", lambda _: answer)
    found = collect("storage", {})
    names = ("rackwright_mount_present", "rackwright_mount_answers", "rackwright_mount_avail_bytes")
    assert tuple(found.get(f'{name}{{mountpoint="/mnt/sharedfs"}}') for name in names) == expected


def test_space_of_a_file_system(tmp_path: Path) -> None:
    size, available = module("storage").space(str(tmp_path))
    assert 0 < available <= size
    assert module("storage").space(str(tmp_path / "none")) is None


def test_hanging_file_system_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stat").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "stat").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(module("storage"), "ANSWER_LIMIT", 0.2)
    assert module("storage").space("/mnt/sharedfs") is None


def test_collectors_and_checks_agree() -> None:
    """On exit statuses of nvidia-smi (2 rejects a field), and on units that say nothing about the node."""
    assert set(module("gpu").ENDS) - {2} == set(ENDS)
    assert module("units").OF_USERS.pattern == identity._OF_USERS.pattern


def test_configuration_of_tests_is_json() -> None:
    from .conftest import NODE as configuration

    assert json.loads(json.dumps(configuration)) == configuration
