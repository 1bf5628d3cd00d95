"""What is made of the fabric's tools. All outputs but `real-form` were captured from ibsim; those have the form of real devices'."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.probes.fabric import LINKS, Manager, parse_errors, parse_manager, parse_ports
from rackwright.report.fabric_diff import End

FOLDER = Path(__file__).parents[1] / "captured"


def captured(probe, case="good"):
    """One captured output."""
    return (FOLDER / probe / f"{case}.txt").read_text(encoding="utf-8")


def test_a_port_that_is_up():
    first, second = parse_ports(captured("fabric-ports"))
    assert (first.adapter, first.up, first.rate_gbps, first.manager, first.link_layer) == ("mlx5_0", True, 104, 1, "InfiniBand")
    assert second.adapter == "mlx5_1"


def test_a_port_without_cable():
    assert [(port.up, port.state, port.physical) for port in parse_ports(captured("fabric-ports", "unplugged"))] == [
        (True, "Active", "LinkUp"),
        (False, "Down", "Polling"),
    ]


def test_no_adapter_at_all_is_an_answer():
    assert parse_ports("") == ()


@pytest.mark.parametrize(("said", "layer"), [("InfiniBand", "InfiniBand"), ("Ethernet", "Ethernet")])
def test_link_layers_as_real_adapters_say_them(said, layer):
    (port,) = parse_ports(captured("fabric-ports", "real-form").replace("InfiniBand", said))
    assert (port.link_layer, port.rate_gbps, port.up) == (layer, 400, True)


def test_links_are_those_between_what_people_plug_in():
    """Aggregation nodes of real switches are none."""
    assert LINKS.parse(captured("fabric-links", "real-form")).far == LINKS.parse(captured("fabric-links")).far


def test_errors_by_port_and_not_what_counts_load_or_reboots():
    assert parse_errors(captured("fabric-errors", "errors")) == {
        End("worker1/mlx5_4", 1): ("PortRcvErrors 77",),
        End("leaf-su1-r2", 1): ("SymbolErrorCounter 4242",),
    }
    assert parse_errors(captured("fabric-errors")) == {}


def test_who_manages_the_subnet():
    assert parse_manager(captured("fabric-manager")) == Manager(1, "MASTER")
    assert parse_manager(captured("fabric-manager", "nobody")) is None
