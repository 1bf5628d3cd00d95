"""Parsing of the fabric's tools. All outputs but `real-form` were captured from ibsim; those have the form of real devices'."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fabric_text import adapter, link, switch, unused
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_fabric as checks
from rackwright.checks.cluster.probes.fabric import LINKS, Manager, Port, parse_manager, parse_ports
from rackwright.checks.cluster.probes.fabric_errors import Counters, Unlisted, parse_errors
from rackwright.errors import UndeterminedError
from rackwright.report.fabric.ibnetdiscover import PortId, read_links
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
FOLDER = Path(__file__).parents[1] / "captured"


def captured(probe, case="good"):
    """Return one captured output."""
    return (FOLDER / probe / f"{case}.txt").read_text(encoding="utf-8")


def test_active_port_is_read():
    first, second = parse_ports(captured("fabric-ports"))
    assert (first.adapter, first.up, first.rate_gbps, first.manager, first.link_layer) == ("mlx5_0", True, 104, 1, "InfiniBand")
    assert second.adapter == "mlx5_1"
    assert (first.guid, second.guid, first.virtual) == (0xA088C20300001001, 0xA088C20300001101, False)


def test_virtual_functions_are_identified_by_type():
    (port,) = parse_ports(captured("fabric-ports", "real-form").replace("MT4129", "MT4126"))
    assert port.virtual


def test_idle_port_may_have_fractional_rate():
    """ibstat prints `Rate: 2.5` for one lane at single speed."""
    (port,) = parse_ports(captured("fabric-ports", "real-form").replace("Rate: 400", "Rate: 2.5"))
    assert (port.rate_gbps, port.rate) == (2.5, "2.5 Gb/s")


def test_second_port_is_ignored():
    text = captured("fabric-ports", "real-form")
    two = text + text[text.index("\tPort 1:") :].replace("Port 1:", "Port 2:").replace("Active", "Down").replace("f01234", "f01235")
    assert parse_ports(two) == parse_ports(text)


def test_port_without_cable_is_down():
    assert [(port.up, port.state, port.physical) for port in parse_ports(captured("fabric-ports", "unplugged"))] == [
        (True, "Active", "LinkUp"),
        (False, "Down", "Polling"),
    ]


def test_missing_adapter_is_an_answer():
    assert parse_ports("") == ()


@pytest.mark.parametrize(("said", "layer"), [("InfiniBand", "InfiniBand"), ("Ethernet", "Ethernet")])
def test_link_layers_of_real_adapters_are_read(said, layer):
    (port,) = parse_ports(captured("fabric-ports", "real-form").replace("InfiniBand", said))
    assert (port.link_layer, port.rate_gbps, port.up) == (layer, 400, True)


def test_links_exclude_internal_connections():
    """Aggregation nodes of real switches are not cables."""
    assert LINKS.parse(captured("fabric-links", "real-form")).far == LINKS.parse(captured("fabric-links")).far


def test_port_errors_exclude_load_and_reboot_counters():
    assert parse_errors(captured("fabric-errors", "errors")).errors == {
        PortId(0xA088C20300002401, 1): ("PortRcvErrors 77",),
        PortId(0xFC6A1C0300000500, 1): ("SymbolErrorCounter 4242",),
    }
    assert parse_errors(captured("fabric-errors")) == Counters({}, Unlisted())


def test_errors_are_matched_by_guid():
    """Also for a real switch, which counts with more bits and prints the number a second time."""
    assert parse_errors(captured("fabric-errors", "good-adapters-by-number")).errors == {
        PortId(0x946DAE0300C1A0B2, 1): ("SymbolErrorCounter 42",),
        PortId(0xB83FD20300D0E100, 2): ("PortRcvErrors 6100",),
    }


def test_failed_port_queries_quote_their_line():
    """For a device whose ports are queried together, all; not for aggregation nodes, and not for ports whose counters were read."""
    links = read_links(captured("fabric-links", "real-form"))
    unread = parse_errors(captured("fabric-errors", "good-unread-ports")).unread_ports(links)
    leaf = {port for port in links.far if port.guid == 0xFC6A1C0300000700}
    assert set(unread) == {PortId(0xA088C20300001101, 1), *leaf} and len(leaf) == 2
    assert unread[PortId(0xA088C20300001101, 1)].endswith("IB_GSI_PORT_COUNTERS_EXT query failed on worker0 mlx5_1, Lid 13 port 1")


@pytest.mark.parametrize(
    ("spoilt", "line"),
    [
        (lambda text: text.replace("          5 PMA", "          6 PMA"), "##          6 PMA query failures"),
        (lambda text: "\n".join(line for line in text.splitlines() if "Lid 7 " not in line), "##          5 PMA query failures"),
        (
            lambda text: text.replace("Lid 7 port", "DR path slid 0; dlid 0; 0 port"),
            "MF0;leaf-su1-r3:MQM9700/U1, DR path slid 0; dlid 0; 0 port 255",
        ),
        (lambda text: f"{MUTE.format('0,1,4')}\n{text}", "Connection timed out"),
    ],
)
def test_failed_queries_of_unnamed_ports_are_unknown(spoilt, line):
    """All ports but those with errors."""
    links = read_links(captured("fabric-links", "real-form"))
    unread = parse_errors(spoilt(captured("fabric-errors", "good-unread-ports"))).unread_ports(links)
    assert set(unread) == links.far.keys() - {PortId(0xA088C20300001301, 1)}
    assert unread[PortId(0xFC6A1C0300000300, 1)].endswith(line)


MUTE = "src/query_smp.c:199; umad (DR path slid 0; dlid 0; {} Attr 0x11:0) bad status 110; Connection timed out"


def test_unresponsive_device_hides_no_other_port():
    links = read_links(f"{MUTE.format('0,1,4')}\n{captured('fabric-links', 'real-form')}")
    assert parse_errors(f"{MUTE.format('0,1,4')}\n{captured('fabric-errors')}").unread_ports(links) == {}


def test_unresponsive_device_is_reported_without_port_down():
    links = read_links(captured("fabric-links", "good-mute-device"))
    assert list(links.unread) == ["DR path slid 0; dlid 0; 0,1,9,2,1"]
    assert not links.is_down(PortId(0xFC6A1C0300000700, 1)) and links.is_down(PortId(0xFC6A1C0300000700, 64))


@pytest.mark.parametrize(
    ("case", "links", "switches"), [("adapters-by-number", 4, 1), ("unnamed-switches", 6, 2), ("chips-and-routers", 4, 2)]
)
def test_links_with_unusual_descriptions_are_read(case, links, switches):
    found = LINKS.parse(captured("fabric-links", f"good-{case}"))
    assert (len(found.far), sum(kind == "SW" for kind in found.kinds.values())) == (links, switches)


def test_subnet_manager_is_read():
    assert parse_manager(captured("fabric-manager")) == Manager(1, "MASTER")
    assert parse_manager(captured("fabric-manager", "nobody")) is None


ROWS = ("worker0/mlx5_0:1 leaf-01:1", "worker1/mlx5_0:1 leaf-02:1", "leaf-01:40 leaf-02:40")
ADAPTERS = (("worker0/mlx5_0", 0xB94, False), ("worker1/mlx5_0", 0xB74, False))
LEAVES = (0x8200, 0x9300)


def wired(adapters=("worker0 HCA-1", "worker1 HCA-1"), leaves=("leaf-01", "leaf-02"), ports=(1, 1)):
    """Return the planned fabric with these descriptions; `ports`: where the adapters are connected."""
    first, second = (switch(guid, said) for guid, said in zip(LEAVES, leaves, strict=True))
    one, other = adapter(0xB94, adapters[0]), adapter(0xB74, adapters[1])
    return read_links(link(one, 1, first, ports[0]) + link(other, 1, second, ports[1]) + link(first, 40, second, 40))


def errors(*lines, warnings=""):
    """Return what ibqueryerrors counts; it prints GUIDs without leading zeros."""
    listed = "".join(f"   GUID {guid:#x} port {port}: [SymbolErrorCounter == 42] [LinkDownedCounter == 3]\n" for guid, port in lines)
    return parse_errors(f'{warnings}Errors for "no matter"\n{listed}\n## Summary: 4 nodes checked, {len(lines)} bad nodes found\n')


def verdict(check, links, counters=None, *, node="worker0", adapters=ADAPTERS):
    """Return the verdict of a check on this fabric."""
    counters = counters or errors()
    compared = checks.compared_once(ROWS, links, adapters)

    def require(concerned):
        checks.require_each_compared(compared, concerned)

    given = {
        "node": SimpleNamespace(name=node),
        "fabric": {"cables": list(ROWS), "switches": ["leaf-01", "leaf-02"]},
        "links": links,
        "comparison": compared,
        "require_compared": require,
        "counted": {compared.live.end(port): found for port, found in counters.errors.items()},
        "uncounted": {compared.live.end(port): line for port, line in counters.unread_ports(links).items()},
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


def test_errors_at_far_end_count():
    links = wired(leaves=("Quantum Mellanox Technologies", "Quantum Mellanox Technologies"))
    assert verdict(checks.test_no_link_errors, links, errors((LEAVES[0], 1)))[0] is FAILED
    assert verdict(checks.test_no_link_errors, links, errors((LEAVES[1], 1)))[0] is PASSED


def test_node_without_guids_and_name_is_unknown():
    links, others = wired(), ADAPTERS[1:]
    assert verdict(checks.test_cables_match_plan, links, adapters=others)[0] is UNKNOWN
    assert verdict(checks.test_no_link_errors, links, errors((0xB94, 1)), adapters=others)[0] is UNKNOWN
    named = wired(("worker0 mlx5_0", "worker1 HCA-1"))
    assert verdict(checks.test_cables_match_plan, named, adapters=others)[0] is PASSED
    assert verdict(checks.test_no_link_errors, named, errors((0xB94, 1)), adapters=others)[0] is FAILED


def port_of(**values):
    """Return a port that is up, with these values instead."""
    given = {"state": "Active", "physical": "LinkUp", "rate_gbps": 400.0, "manager": 1, "link_layer": "InfiniBand", "guid": 0xB94}
    return Port(**{"adapter": "mlx5_0", "virtual": False, **given, **values})


def test_split_and_whole_port_rates():
    """Rates of HCAs as ibstat prints them, rates between switches as the fabric reports them."""
    split = {"rate_gbps": 200, "simulated": False, "width": "2x", "speed": "NDR", "switch_width": "4x"}
    for rate, expected in ((200, PASSED), (100, FAILED), (400, FAILED)):
        up = [port_of(rate_gbps=rate)]
        assert verdict_of(checks.test_rate_matches_plan, {}, fabric=split, up=up, members=None, ask=None)[0] is expected
    compared = checks.compared_once(ROWS, wired(), ADAPTERS)
    for width, expected in (("4x", PASSED), ("2x", FAILED)):
        fabric = {**split, "switch_width": width}
        assert verdict_of(checks.test_switch_rates_match_plan, {}, fabric=fabric, comparison=compared)[0] is expected


@pytest.mark.parametrize(
    ("said", "expected"), [("4x NDR", PASSED), ("4x ???", UNKNOWN), ("?? NDR", UNKNOWN), ("1x NDR", FAILED), ("4x SDR", FAILED)]
)
def test_rate_that_the_tool_does_not_know_is_unknown(said, expected):
    """An older release prints ??? for the speed of a newer generation."""
    first, second = (switch(guid, name) for guid, name in zip(LEAVES, ("leaf-01", "leaf-02"), strict=True))
    links = read_links(link(adapter(0xB94, "worker0 HCA-1"), 1, first, 1, said) + link(first, 40, second, 40, said))
    fabric = {"rate_gbps": 400, "simulated": True, "width": "4x", "speed": "NDR", "switch_width": "4x"}
    compared = checks.compared_once(ROWS, links, ADAPTERS)
    assert verdict_of(checks.test_switch_rates_match_plan, {}, fabric=fabric, comparison=compared)[0] is expected
    given = {"fabric": fabric, "up": [port_of()], "members": lambda _: ["login0"]}
    assert verdict_of(checks.test_rate_matches_plan, {LINKS: lambda: links}, **given)[0] is expected


def test_misconnected_cable_fails_its_node():
    """Also for a node whose adapter has another node's description."""
    found, why = verdict(checks.test_cables_match_plan, wired(("worker1 mlx5_0", "worker0 mlx5_0"), ports=(7, 1)))
    assert found is FAILED and "worker0/mlx5_0:1 is connected to leaf-01:7 (expected leaf-01:1)" in why


def test_cable_of_virtual_function_is_unknown():
    virtual = (("worker0/mlx5_0", 0xC0FFEE, True), ADAPTERS[1])
    links = wired(("hypervisor3 mlx5_0", "worker1 mlx5_0"))
    assert verdict(checks.test_cables_match_plan, links, adapters=virtual)[0] is UNKNOWN
    assert verdict(checks.test_cables_match_plan, links, adapters=virtual, node="worker1")[0] is PASSED


def test_unnamed_switches_give_naming_hint():
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


def test_chips_of_one_switch_are_distinguished():
    links = wired(leaves=("MF0;ib-r1:Q3400_RA/U1", "MF0;ib-r1:Q3400_RA/U2"))
    found, why = verdict(checks.test_switches_match_plan, links)
    assert found is FAILED and "ib-r1/U1" in why and "ib-r1/U2" in why


def unread(lid, port, name="worker0 HCA-1"):
    """Return the counters of a fabric in which one query failed."""
    return errors((0xB74, 1), warnings=f"ibwarn: [9] print_errors: IB_GSI_PORT_COUNTERS query failed on {name}, Lid {lid} port {port}\n")


def test_failed_port_query_affects_only_its_node():
    links = read_links(
        link(adapter(0xB94, "worker0 HCA-1", 11), 1, switch(LEAVES[0], "leaf-01", 21), 1)
        + link(adapter(0xB74, "worker1 HCA-1", 12), 1, switch(LEAVES[1], "leaf-02", 22), 1)
        + link(switch(LEAVES[0], "leaf-01", 21), 40, switch(LEAVES[1], "leaf-02", 22), 40)
    )
    found, why = verdict(checks.test_no_link_errors, links, unread(11, 1))
    assert found is UNKNOWN and "worker0/mlx5_0:1" in why and "query failed on worker0 HCA-1, Lid 11 port 1" in why
    assert verdict(checks.test_no_link_errors, links, unread(11, 1), node="worker1")[0] is FAILED
    assert verdict(checks.test_switch_links_count_no_errors, links, unread(11, 1))[0] is PASSED
    for query in ((21, 40), (22, 255)):
        assert verdict(checks.test_switch_links_count_no_errors, links, unread(*query, name="leaf"))[0] is UNKNOWN
    aggregation = unread(20, 1, "Mellanox Technologies Aggregation Node")
    assert verdict(checks.test_no_link_errors, links, aggregation)[0] is PASSED


def test_cable_of_unresponsive_device_is_unknown():
    first, second = (switch(guid, said) for guid, said in zip(LEAVES, ("leaf-01", "leaf-02"), strict=True))
    seen = link(adapter(0xB74, "worker1 HCA-1"), 1, second, 1) + link(first, 40, second, 40)
    unresponsive, down = unused(first, 1, "4x NDR"), unused(first, 1)
    timeout = f"{MUTE.format('0,1,40,1')}\n"
    for text, expected in (
        (timeout + seen + unresponsive, UNKNOWN),
        (timeout + seen + down, FAILED),
        (seen + down, FAILED),
        (seen, FAILED),
    ):
        assert verdict(checks.test_cables_match_plan, read_links(text))[0] is expected
        assert verdict(checks.test_cables_match_plan, read_links(text), node="worker1")[0] is PASSED
    assert "Connection timed out" in verdict(checks.test_cables_match_plan, read_links(timeout + seen + unresponsive))[1]
    alone = link(adapter(0xB94, ""), 1, first, 1)
    assert verdict(checks.test_switches_match_plan, read_links(alone))[0] is FAILED
    assert verdict(checks.test_switches_match_plan, read_links(timeout + alone))[0] is UNKNOWN


def comparison_of(answers, guids=None):
    """Return the comparison of the checks; `answers`: node -> output of ibstat, or an exception."""

    def ask(probe, of):
        if isinstance(answers[of], Exception):
            raise answers[of]
        return parse_ports(answers[of])

    fabric = {"cables": ROWS, "line_card": None, **({"guids": guids} if guids else {})}
    return checks.comparison.__wrapped__(fabric, wired(), ask, lambda _: tuple(answers))


def ibstat(name, guid, kind="MT4129"):
    text = captured("fabric-ports", "real-form").replace("mlx5_0", name).replace("0x946dae0300f01234", f"{guid:#018x}")
    return text.replace("MT4129", kind)


SILENT = UndeterminedError("worker0 is unreachable")


@pytest.mark.parametrize(
    ("first", "guids", "unknown"),
    [
        (ibstat("mlx5_0", 0xB94), None, []),
        (SILENT, None, ["worker0/mlx5_0:1"]),
        (SILENT, {"worker0/mlx5_0": f"{0xB94:#018x}"}, []),
        (ibstat("mlx5_3", 0xB94), {"worker0/mlx5_0": f"{0xB94:#018x}"}, []),
        (ibstat("mlx5_0", 0xC0FFEE), {"worker0/mlx5_0": f"{0xB94:#018x}"}, []),
        (ibstat("mlx5_0", 0xC0FFEE, "MT4126"), {"worker0/mlx5_0": f"{0xB94:#018x}"}, ["worker0/mlx5_0:1"]),
        (ibstat("mlx5_0", 0xB94).replace("\t\tPort GUID: ", "\t\tPort GUID: ?"), None, ["worker0/mlx5_0:1"]),
    ],
    ids=["reported", "silent node", "silent node, declared", "renamed, declared", "other card, declared", "virtual", "GUID not read"],
)
def test_adapters_are_identified_by_declared_or_reported_guid(first, guids, unknown):
    found = comparison_of({"worker0": first, "worker1": ibstat("mlx5_0", 0xB74)}, guids)
    assert (found.differences, [str(cable.near) for cable in found.unknown]) == ((), unknown)
