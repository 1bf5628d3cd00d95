"""What is made of the fabric's tools. All outputs but `real-form` were captured from ibsim; those have the form of real devices'."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fabric_text import adapter, link, switch
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_fabric as checks
from rackwright.checks.cluster.probes.fabric import LINKS, Manager, parse_errors, parse_manager, parse_ports
from rackwright.report.fabric_links import PortId, read_links
from rackwright.report.verdict import Verdict

FOLDER = Path(__file__).parents[1] / "captured"


def captured(probe, case="good"):
    """One captured output."""
    return (FOLDER / probe / f"{case}.txt").read_text(encoding="utf-8")


def test_a_port_that_is_up():
    first, second = parse_ports(captured("fabric-ports"))
    assert (first.adapter, first.up, first.rate_gbps, first.manager, first.link_layer) == ("mlx5_0", True, 104, 1, "InfiniBand")
    assert second.adapter == "mlx5_1"
    assert (first.guid, second.guid, first.virtual) == (0xA088C20300001001, 0xA088C20300001101, False)


def test_virtual_functions_are_known_by_their_type():
    (port,) = parse_ports(captured("fabric-ports", "real-form").replace("MT4129", "MT4126"))
    assert port.virtual


def test_idle_port_has_a_rate_that_is_no_whole_number():
    """ibstat prints `Rate: 2.5` for one lane at single speed."""
    (port,) = parse_ports(captured("fabric-ports", "real-form").replace("Rate: 400", "Rate: 2.5"))
    assert (port.rate_gbps, port.rate) == (2.5, "2.5 Gb/s")


def test_second_port_does_not_count():
    text = captured("fabric-ports", "real-form")
    two = text + text[text.index("\tPort 1:") :].replace("Port 1:", "Port 2:").replace("Active", "Down").replace("f01234", "f01235")
    assert parse_ports(two) == parse_ports(text)


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
        PortId(0xA088C20300002401, 1): ("PortRcvErrors 77",),
        PortId(0xFC6A1C0300000500, 1): ("SymbolErrorCounter 4242",),
    }
    assert parse_errors(captured("fabric-errors")) == {}


def test_errors_are_those_of_guids_and_not_of_names():
    """Of a real switch, too, which counts in more bits and prints the number a second time."""
    assert parse_errors(captured("fabric-errors", "good-adapters-by-number")) == {
        PortId(0x946DAE0300C1A0B2, 1): ("SymbolErrorCounter 42",),
        PortId(0xB83FD20300D0E100, 2): ("PortRcvErrors 6100",),
    }


@pytest.mark.parametrize(
    ("case", "links", "switches"), [("adapters-by-number", 4, 1), ("unnamed-switches", 6, 2), ("chips-and-routers", 4, 2)]
)
def test_links_of_odd_descriptions(case, links, switches):
    found = LINKS.parse(captured("fabric-links", f"good-{case}"))
    assert (len(found.far), sum(kind == "SW" for kind in found.kinds.values())) == (links, switches)


def test_who_manages_the_subnet():
    assert parse_manager(captured("fabric-manager")) == Manager(1, "MASTER")
    assert parse_manager(captured("fabric-manager", "nobody")) is None


ROWS = ("worker0/mlx5_0:1 leaf-01:1", "worker1/mlx5_0:1 leaf-02:1", "leaf-01:40 leaf-02:40")
ADAPTERS = (("worker0/mlx5_0", 0xB94, False), ("worker1/mlx5_0", 0xB74, False))
LEAVES = (0x8200, 0x9300)
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def wired(adapters=("worker0 HCA-1", "worker1 HCA-1"), leaves=("leaf-01", "leaf-02"), ports=(1, 1)):
    """Return the planned fabric with these descriptions; `ports`: where the adapters are connected."""
    first, second = (switch(guid, said) for guid, said in zip(LEAVES, leaves, strict=True))
    one, other = adapter(0xB94, adapters[0]), adapter(0xB74, adapters[1])
    return read_links(link(one, 1, first, ports[0]) + link(other, 1, second, ports[1]) + link(first, 40, second, 40))


def errors(*lines):
    """Return what ibqueryerrors counts; it prints GUIDs without leading zeros."""
    listed = "".join(f"   GUID {guid:#x} port {port}: [SymbolErrorCounter == 42] [LinkDownedCounter == 3]\n" for guid, port in lines)
    return parse_errors(f'Errors for "no matter"\n{listed}\n## Summary: 4 nodes checked, {len(lines)} bad nodes found\n')


def verdict(check, links, counters=None, *, node="worker0", adapters=ADAPTERS):
    """Return the verdict of a check of this fabric."""
    compared = checks.compared_once(ROWS, links, adapters)

    def require(concerned):
        checks.require_each_compared(compared, concerned)

    given = {
        "node": SimpleNamespace(name=node),
        "fabric": {"cables": list(ROWS), "switches": ["leaf-01", "leaf-02"]},
        "links": links,
        "comparison": compared,
        "require_compared": require,
        "counted": {compared.live.end(port): counters for port, counters in (counters or {}).items()},
        "planned_ports": [SimpleNamespace(guid=guid) for name, guid, _ in adapters if name.startswith(f"{node}/")],
    }
    return verdict_of(check, {}, **given)


@pytest.mark.parametrize("adapters", [("worker0 HCA-1", "worker1 HCA-1"), ("", ""), ("worker1 mlx5_0", "worker0 mlx5_0")])
def test_cables_and_errors_are_joined_by_guid(adapters):
    links = wired(adapters)
    for node in ("worker0", "worker1"):
        assert verdict(checks.test_cables_match_plan, links, node=node)[0] is PASSED
    count = errors((0xB94, 1))
    assert verdict(checks.test_no_link_errors, links, count) == (
        FAILED,
        verdict(checks.test_no_link_errors, wired(("worker0 mlx5_0", "worker1 mlx5_0")), count)[1],
    )
    assert verdict(checks.test_no_link_errors, links, count, node="worker1")[0] is PASSED


def test_errors_at_the_far_end_of_an_own_cable_count():
    links = wired(leaves=("Quantum Mellanox Technologies", "Quantum Mellanox Technologies"))
    assert verdict(checks.test_no_link_errors, links, errors((LEAVES[0], 1)))[0] is FAILED
    assert verdict(checks.test_no_link_errors, links, errors((LEAVES[1], 1)))[0] is PASSED


def test_node_that_reports_no_guids_is_unknown_where_its_adapter_has_no_name():
    links, others = wired(), ADAPTERS[1:]
    assert verdict(checks.test_cables_match_plan, links, adapters=others)[0] is UNKNOWN
    assert verdict(checks.test_no_link_errors, links, errors((0xB94, 1)), adapters=others)[0] is UNKNOWN
    named = wired(("worker0 mlx5_0", "worker1 HCA-1"))
    assert verdict(checks.test_cables_match_plan, named, adapters=others)[0] is PASSED
    assert verdict(checks.test_no_link_errors, named, errors((0xB94, 1)), adapters=others)[0] is FAILED


def test_misconnected_cable_is_its_nodes_fault():
    """Of a node whose adapter is described as another's, too."""
    found, why = verdict(checks.test_cables_match_plan, wired(("worker1 mlx5_0", "worker0 mlx5_0"), ports=(7, 1)))
    assert found is FAILED and "worker0/mlx5_0:1 is connected to leaf-01:7 (expected leaf-01:1)" in why


def test_cable_of_a_virtual_function_is_unknown():
    virtual = (("worker0/mlx5_0", 0xC0FFEE, True), ADAPTERS[1])
    links = wired(("hypervisor3 mlx5_0", "worker1 mlx5_0"))
    assert verdict(checks.test_cables_match_plan, links, adapters=virtual)[0] is UNKNOWN
    assert verdict(checks.test_cables_match_plan, links, adapters=virtual, node="worker1")[0] is PASSED


def test_unnamed_switches_are_told_to_be_named():
    links = wired(leaves=("SwitchIB Mellanox Technologies", "SwitchIB Mellanox Technologies"))
    for check in (checks.test_switches_match_plan, checks.test_cables_match_plan, checks.test_switch_cables_match_plan):
        found, why = verdict(check, links)
        assert found is UNKNOWN and "/etc/rdma/ib-node-name-map" in why, why
    assert verdict(checks.test_switches_match_plan, links)[1].startswith("2 of 2 switches have no name of their own")
    assert verdict(checks.test_switch_links_count_no_errors, links, errors((LEAVES[0], 40)))[0] is UNKNOWN
    assert verdict(checks.test_switch_links_count_no_errors, wired(), errors((LEAVES[0], 40)))[0] is FAILED
    assert verdict(checks.test_switch_links_count_no_errors, wired(), errors((0xB94, 1)))[0] is PASSED


def test_missing_switch_fails():
    first, one = switch(LEAVES[0], "leaf-01"), adapter(0xB94, "")
    assert verdict(checks.test_switches_match_plan, read_links(link(one, 1, first, 1)))[0] is FAILED


def test_chips_of_one_switch_are_told_apart():
    links = wired(leaves=("MF0;ib-r1:Q3400_RA/U1", "MF0;ib-r1:Q3400_RA/U2"))
    found, why = verdict(checks.test_switches_match_plan, links)
    assert found is FAILED and "ib-r1/U1" in why and "ib-r1/U2" in why
