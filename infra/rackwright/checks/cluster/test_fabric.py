"""The fabric, compared with the plan: every adapter, port and cable. The subnet supplies what a simulated adapter cannot report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, quoted
from rackwright.checks.cluster.probes.adapters import ADAPTERS
from rackwright.checks.cluster.probes.fabric import ACTIVE, LINKS, MANAGER, PORTS, Port
from rackwright.checks.cluster.probes.fabric_errors import COUNTERS
from rackwright.checks.cluster.probes.neighbours import INTERFACES
from rackwright.checks.cluster.probes.rails import GIDS, RAIL_FRAMES, Frames
from rackwright.errors import UndeterminedError
from rackwright.report.fabric.comparison import NODE_NAME_MAP, Cable, Comparison, compare, ends
from rackwright.report.fabric.device_names import CableEnd
from rackwright.report.fabric.ibnetdiscover import DeviceKind, FabricLinks, PortId

T = TypeVar("T")
RequireCompared = Callable[[Callable[[Cable], bool]], None]


@pytest.fixture
def planned_ports(node: Record, ask: Ask) -> list[Port]:
    """Return the node's ports that the plan names; a node may have other adapters for storage and management."""
    ports = [port for port in ask(PORTS) if port.adapter in node.rails]
    if not ports:
        raise UndeterminedError("ibstat shows no adapter of the plan")
    return ports


@pytest.fixture
def up(planned_ports: list[Port]) -> list[Port]:
    """Return the planned ports that carry traffic, and those whose state could not be read."""
    found = [port for port in planned_ports if port.up or isinstance(port.status, UnreadableValue)]
    if not found:
        raise UndeterminedError("no planned port of the node is up")
    return found


def subnet_rate(port: Port, links: FabricLinks) -> str | UnreadableValue:
    """Return width and speed of a port as the subnet reports them."""
    if isinstance(port.guid, UnreadableValue):
        return port.guid
    end = PortId(port.guid, 1)
    return (
        UnreadableValue(f"the rate of {port.adapter}", links.unrated[end], "") if end in links.unrated else links.rates.get(end, "not seen")
    )


def of_active(port: Port, value: T | UnreadableValue) -> T | UnreadableValue:
    """Return a value of a port, or why it is unknown whether the port is up, so that the value counts."""
    return port.status if isinstance(port.status, UnreadableValue) else value


@pytest.fixture
def links(ask: Ask, fabric_node: str) -> Any:
    """Return every link that is up."""
    return ask(LINKS, of=fabric_node)


@lru_cache(maxsize=4)
def compared_once(cables: Any, links: Any, adapters: tuple[tuple[str, int, bool], ...], line_card: str = "") -> Comparison:
    """Return the comparison of the cables; that of thousands of cables is the same for every node."""
    guids = {name: guid for name, guid, virtual in adapters if not virtual}
    return compare(cables, links, guids=guids, hidden={name for name, _, virtual in adapters if virtual}, line_card=line_card)


@pytest.fixture
def comparison(fabric: Mapping[str, Any], links: Any, ask: Ask, members: Members) -> Comparison:
    """Return the cables compared with the links.

    An adapter is identified by its declared GUID, else by the one that its node reports, else by its description.
    """
    declared = {name: int(guid, 16) for name, guid in fabric.get("guids", {}).items()}
    adapters = [(name, guid, False) for name, guid in declared.items()]
    for name in members("fabric"):
        try:
            ports = ask(PORTS, of=name)
        except UndeterminedError:
            continue
        adapters += reported(name, ports, declared)
    return compared_once(tuple(fabric["cables"]), links, tuple(adapters), fabric["line_card"] or "")


def reported(node: str, ports: Iterable[Port], declared: Mapping[str, int]) -> Iterator[tuple[str, int, bool]]:
    """Yield name, port GUID and whether it is virtual, of virtual adapters and of those that are not declared by their name or GUID."""
    known = frozenset(declared.values())
    for port in ports:
        name = f"{node}/{port.adapter}"
        if isinstance(port.guid, UnreadableValue) or isinstance(port.virtual, UnreadableValue):
            continue
        if port.virtual or (name not in declared and port.guid not in known):
            yield name, port.guid, port.virtual


def require_each_compared(comparison: Comparison, concerned: Callable[[Cable], bool]) -> None:
    """Raise UndeterminedError if one of the concerned cables could not be compared."""
    if any(map(concerned, comparison.unknown)):
        by_hand = "compare the cables of switches with several chips by hand; for other devices, " if comparison.live.unplaced else ""
        raise UndeterminedError(f"{comparison.why_unknown}; {by_hand}name them, or list their GUIDs in {NODE_NAME_MAP} of the observer")


@pytest.fixture
def require_compared(comparison: Comparison) -> RequireCompared:
    """Return a function that raises UndeterminedError if one of the concerned cables could not be compared."""
    return partial(require_each_compared, comparison)


@pytest.fixture
def counted(ask: Ask, fabric_node: str, comparison: Comparison) -> dict[CableEnd, Any]:
    """Return the error counters by end of a cable."""
    return {comparison.live.end(port): counters for port, counters in ask(COUNTERS, of=fabric_node).errors.items()}


@pytest.fixture
def uncounted(ask: Ask, fabric_node: str, comparison: Comparison) -> dict[CableEnd, str]:
    """Return the ends of cables whose error counters could not be read, with the line that reports it."""
    return {comparison.live.end(port): line for port, line in ask(COUNTERS, of=fabric_node).unread_ports(comparison.live.links).items()}


def require_each_counted(uncounted: dict[CableEnd, str], concerned: Collection[CableEnd]) -> None:
    """Raise UndeterminedError if the counters of one of these ends could not be read."""
    if unread := sorted(end for end in uncounted if end in concerned):
        shown = ", ".join(map(str, unread[:3])) + (f" and {len(unread) - 3} more" if len(unread) > 3 else "")
        raise UndeterminedError(f'the error counters of {shown} could not be read: "{quoted(uncounted[unread[0]])}"')


def declared_of(node: Record) -> dict[str, dict[str, str]]:
    """Return the declared identities of a node's rails, by device and then by field."""
    declared = vars(getattr(node, "adapters", SimpleNamespace()))
    return {name: {field: value for field, value in vars(one).items() if value} for name, one in declared.items() if name in node.rails}


IDENTITIES = {"node_guid": "node GUID", "pci": "PCI address", "mac": "MAC address"}
"""Declared identities beside the port GUID, with their names in results."""


def reported_identity(name: str, field: str, ask: Ask) -> str | tuple[str, ...] | UnreadableValue:
    """Return what the kernel reports of an adapter in place of a declared field; several MAC addresses if it has several interfaces."""
    try:
        one = ask(ADAPTERS).at(name)
    except UndeterminedError as error:
        return UnreadableValue(f"the {IDENTITIES[field]} of {name}", None, str(error))
    if one is None:
        return UnreadableValue(f"the {IDENTITIES[field]} of {name}", None, "")
    return one if isinstance(one, UnreadableValue) else {"node_guid": one.node_guid, "pci": one.pci, "mac": one.macs}[field]


def test_adapters_are_present(node: Record, ask: Ask, expect: Expect) -> None:
    """A node without one of its adapters still answers SSH, and its jobs hang in the first all-reduce.

    A declared adapter must have its identity: after a card is lost or replaced, the kernel may give its name to another one.
    """
    ports, declared = ask(PORTS), declared_of(node)
    guids = {name: one["port_guid"] for name, one in declared.items() if "port_guid" in one}
    found: dict[str, Any] = {name: ports.present(name) for name in node.rails}
    found |= {port.adapter: port.guid_text for port in ports if port.adapter in guids}
    planned = {name: guids.get(name, "present") for name in node.rails}
    present = [name for name in declared if not isinstance(found[name], str) or found[name] != "missing"]
    for name, field in ((name, field) for name in present for field in IDENTITIES if field in declared[name]):
        value, key = reported_identity(name, field, ask), f"{name} {IDENTITIES[field]}"
        planned[key] = declared[name][field]
        found[key] = planned[key] if isinstance(value, tuple) and planned[key] in value else value
    expect(found, planned)


def test_ports_are_active(planned_ports: list[Port], expect: Expect) -> None:
    """A port that is up electrically but not configured by a subnet manager carries no traffic."""
    expect({port.adapter: port.status for port in planned_ports}, {port.adapter: ACTIVE for port in planned_ports})


def test_link_layer_matches_plan(planned_ports: list[Port], fabric: Mapping[str, Any], expect: Expect) -> None:
    """An adapter can be set to either link layer, and its LED looks the same for both."""
    expect({port.adapter: port.link_layer for port in planned_ports}, {port.adapter: fabric["link_layer"] for port in planned_ports})


def test_rate_matches_plan(fabric: Mapping[str, Any], up: list[Port], ask: Ask, members: Members, expect: Expect) -> None:
    """A bad cable makes a link slower, not dead. A simulated adapter always reports 104 Gb/s, so the rate is read from the subnet."""
    planned = f"{fabric['rate_gbps']} Gb/s"
    found = {port.adapter: of_active(port, port.rate) for port in up}
    if fabric["simulated"]:
        planned, links = f"{fabric['width']} {fabric['speed']}", ask(LINKS, of=members("@observer")[0])
        found = {port.adapter: of_active(port, subnet_rate(port, links)) for port in up}
    expect(found, dict.fromkeys(found, planned))


def test_single_subnet_manager(up: list[Port], ask: Ask, fabric_node: str, observer: Record, expect: Expect) -> None:
    """Two subnet managers that do not know each other assign the same addresses."""
    there = [port for port in ask(PORTS, of=fabric_node) if port.up and port.adapter in observer.rails]
    lids = sorted({port.manager for port in there if not isinstance(port.manager, UnreadableValue)})
    if not lids:
        raise UndeterminedError(f"no planned port of {fabric_node}, which is queried for the whole fabric, is up")
    found = {port.adapter: of_active(port, port.manager) for port in up}
    named = {name: lid if isinstance(lid, UnreadableValue) else f"LID {lid}" for name, lid in found.items()}
    expect(named, {name: f"LID {lid if lid in lids else lids[0]}" for name, lid in found.items() if not isinstance(lid, UnreadableValue)})


def test_cables_match_plan(node: Record, comparison: Comparison, require_compared: RequireCompared, expect: Expect) -> None:
    """Two swapped cables are both up: only the plan shows the fault, and traffic of separate rails meets."""
    expect([str(one) for one in comparison.differences if one.node == node.name], [])
    require_compared(lambda cable: cable.near.node == node.name)


def test_no_link_errors(
    node: Record,
    fabric: Mapping[str, Any],
    planned_ports: list[Port],
    links: Any,
    comparison: Comparison,
    counted: dict[CableEnd, Any],
    uncounted: dict[CableEnd, str],
    require_compared: RequireCompared,
    expect: Expect,
) -> None:
    """Errors at either end of the node's cables cause retransmissions, and a collective waits for the slowest link."""
    live = comparison.live
    own = {end for cable in map(ends, fabric["cables"]) if cable.near.node == node.name for end in cable}
    for port in (PortId(port.guid, 1) for port in planned_ports if not isinstance(port.guid, UnreadableValue)):
        own |= {live.end(one) for one in (port, links.far.get(port)) if one}
    expect({str(end): counters for end, counters in counted.items() if end in own}, {})
    require_each_counted(uncounted, own)
    require_compared(lambda cable: cable.near.node == node.name and cable.near.device not in live.identified)


def test_switches_match_plan(fabric: Mapping[str, Any], comparison: Comparison, expect: Expect) -> None:
    """A switch that is not visible has no power, or no working cable."""
    found, planned = comparison.live.switches, frozenset(fabric["switches"])
    unnamed = found & set(comparison.live.unnamed(DeviceKind.SWITCH))
    if unnamed and found - planned == unnamed and len(unnamed) == len(planned - found):
        raise UndeterminedError(
            f"{len(unnamed)} of {len(planned)} switches have no name of their own: {', '.join(sorted(unnamed)[:3])}; "
            f"name them, or list their GUIDs in {NODE_NAME_MAP} of the observer"
        )
    unread = list(comparison.live.links.unread.values())
    if unread and found < planned:
        raise UndeterminedError(f'{len(planned - found)} planned switches are not seen, and a device did not answer: "{quoted(unread[0])}"')
    expect(set(found), set(planned))


def test_switch_cables_match_plan(comparison: Comparison, require_compared: RequireCompared, expect: Expect) -> None:
    """The cables between switches must match the plan."""
    expect([str(one) for one in comparison.differences if one.is_between_switches], [])
    require_compared(lambda cable: cable.near.node is None)


def test_switch_rates_match_plan(fabric: Mapping[str, Any], comparison: Comparison, expect: Expect) -> None:
    """One slow link between switches slows every rail that uses it."""
    planned, far = f"{fabric['switch_width']} {fabric['speed']}", comparison.live.far
    unread = {end: UnreadableValue(f"the rate of {end}", said, "") for end, said in comparison.live.unrated.items()}
    rates = {**comparison.live.rates, **unread}
    found = {str(end): rate for end, rate in rates.items() if {end.kind, far[end].kind} == {DeviceKind.SWITCH}}
    expect(found, dict.fromkeys(found, planned))


def test_switch_links_count_no_errors(
    fabric: Mapping[str, Any],
    comparison: Comparison,
    counted: dict[CableEnd, Any],
    uncounted: dict[CableEnd, str],
    require_compared: RequireCompared,
    expect: Expect,
) -> None:
    """Errors at the links between switches affect every job whose traffic crosses them."""
    planned = {end for cable in map(ends, fabric["cables"]) if cable.near.node is None for end in cable}
    expect({str(end): counters for end, counters in counted.items() if end in planned}, {})
    require_each_counted(uncounted, planned)
    if any(end.device in comparison.live.unassigned for end in counted):
        require_compared(lambda cable: cable.near.node is None)


def test_subnet_manager_is_master(ask: Ask, expect: Expect) -> None:
    """Without a subnet manager, active links stay active, but no other link becomes active."""
    manager = ask(MANAGER)
    expect(manager.state if manager else "no subnet manager answers", "MASTER")


def test_rail_addresses_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """Without its address a rail is not used, and its traffic goes over another network."""
    found: dict[str, list[str]] = {}
    for one in ask(INTERFACES):
        found.setdefault(one.name, []).append(f"{one.address}/{one.network.rpartition('/')[2]}")
    expect(
        {rail.name: ", ".join(found.get(rail.name, ["no address"])) for rail in node.rail_interfaces},
        {rail.name: f"{rail.address}/{rail.prefix}" for rail in node.rail_interfaces},
    )


def test_rails_carry_full_frames(node: Record, ask: Ask, expect: Expect) -> None:
    """A lower MTU on one card, cable or switch lets pings and logins pass, and stops large messages."""
    mtus = {rail.name: rail.mtu for rail in node.rail_interfaces}
    found = {}
    reaches = ask(RAIL_FRAMES)
    for name, reach in reaches.items():
        try:
            ask(INTERFACES, of=reach.neighbour)
        except UndeterminedError:  # the checks of that node report the error
            continue
        found[name] = f"full frames of {mtus[reach.interface]} bytes" if reach.frames is Frames.FULL else reach.frames.value
    expect(found, {name: f"full frames of {mtus[name.rpartition(' ')[2]]} bytes" for name in found})
    if reaches.unread or not found:
        raise UndeterminedError(f'a ping has no result: "{quoted(reaches.unread[0])}"' if reaches.unread else "no neighbour responds")


def test_gids_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A device whose table lacks the address of its rail cannot send RoCE version 2 to other nodes."""
    gids = ask(GIDS)
    found: dict[str, Any] = {}
    for rail in node.rail_interfaces:
        there = any(
            (one.device, one.card, one.address, one.kind) == (rail.device, rail.name, rail.address, "RoCE v2") for one in gids.values()
        )
        unread = UnreadableValue(f"the GIDs of {rail.device}", gids.unread[0], "") if gids.unread else "missing"
        found[rail.device] = f"{rail.address} on {rail.name}" if there else unread
    expect(found, {rail.device: f"{rail.address} on {rail.name}" for rail in node.rail_interfaces})
