"""The fabric, compared with the plan: every adapter, port and cable. The subnet supplies what a simulated adapter cannot report."""

from __future__ import annotations

import pytest

from cluster.probes.fabric import COUNTERS, LINKS, MANAGER, PORTS
from rackwright.errors import UndeterminedError
from rackwright.report.fabric_diff import End, differences


@pytest.fixture
def planned_ports(node, ask):
    """Return the node's ports that the plan names; a node may have other adapters for storage and management."""
    ports = [port for port in ask(PORTS) if port.adapter in node.rails]
    if not ports:
        raise UndeterminedError("ibstat shows no adapter of the plan")
    return ports


@pytest.fixture
def up(planned_ports):
    """Return the planned ports that carry traffic."""
    found = [port for port in planned_ports if port.up]
    if not found:
        raise UndeterminedError("no planned port of the node is up")
    return found


@pytest.fixture
def links(ask, observer):
    """Return every link that is up."""
    return ask(LINKS, of=observer)


@pytest.fixture
def astray(fabric, links):
    """Return the cables that differ from the plan."""
    return differences(fabric["cables"], links)


@pytest.fixture
def counted(ask, observer):
    """Return the error counters by port."""
    return {str(end): counters for end, counters in ask(COUNTERS, of=observer).items()}


def test_adapters_are_present(node, ask, expect):
    """A node without one of its adapters still answers SSH, and its jobs hang in the first all-reduce."""
    expect([name for name in node.rails if name in {port.adapter for port in ask(PORTS)}], list(node.rails))


def test_ports_are_active(planned_ports, expect):
    """A port that is up electrically but not configured by a subnet manager carries no traffic."""
    expect({port.adapter: f"{port.state}, {port.physical}" for port in planned_ports if not port.up}, {})


def test_link_layer_matches_plan(planned_ports, fabric, expect):
    """An adapter can be set to either link layer, and its LED looks the same for both."""
    expect({port.adapter: port.link_layer for port in planned_ports if port.link_layer != fabric["link_layer"]}, {})


def test_rate_matches_plan(node, fabric, up, ask, members, expect):
    """A bad cable makes a link slower, not dead. A simulated adapter always reports 104 Gb/s, so the rate is read from the subnet."""
    planned = f"{fabric['rate_gbps']} Gb/s"
    found = {port.adapter: f"{port.rate_gbps} Gb/s" for port in up}
    if fabric["simulated"]:
        planned, seen = f"{fabric['width']} {fabric['speed']}", ask(LINKS, of=members("@observer")[0]).rates
        found = {port.adapter: seen.get(End(f"{node.name}/{port.adapter}", 1), "not seen") for port in up}
    expect({adapter: rate for adapter, rate in found.items() if rate != planned} or planned, planned)


def test_single_subnet_manager(up, ask, observer, expect):
    """Two subnet managers that do not know each other assign the same addresses."""
    here = {port.manager for port in up}
    expect({f"LID {lid}" for lid in here}, {f"LID {port.manager}" for port in ask(PORTS, of=observer) if port.up})


def test_cables_match_plan(node, astray, expect):
    """Two swapped cables are both up: only the plan shows the fault, and traffic of separate rails meets."""
    expect([str(one) for one in astray if one.node == node.name], [])


def test_no_link_errors(node, fabric, counted, expect):
    """Errors at either end of the node's cables cause retransmissions, and a collective waits for the slowest link."""
    own = {end for row in fabric["cables"] if row.startswith(f"{node.name}/") for end in row.split()}
    expect({end: counters for end, counters in counted.items() if end in own}, {})


def test_switches_match_plan(fabric, links, expect):
    """A switch that is not visible has no power, or no working cable."""
    expect(set(links.switches), set(fabric["switches"]))


def test_switch_cables_match_plan(astray, expect):
    """The cables between switches must match the plan."""
    expect([str(one) for one in astray if one.node is None], [])


def test_switch_rates_match_plan(fabric, links, expect):
    """One slow link between switches slows every rail that uses it."""
    planned = f"{fabric['width']} {fabric['speed']}"
    between = {str(end): rate for end, rate in links.rates.items() if end.node is None and links.far[end].node is None}
    expect({end: rate for end, rate in between.items() if rate != planned}, {})


def test_switch_links_count_no_errors(fabric, counted, expect):
    """Errors at the links between switches affect every job whose traffic crosses them."""
    between = {end for row in fabric["cables"] if "/" not in row for end in row.split()}
    expect({end: counters for end, counters in counted.items() if end in between}, {})


def test_subnet_manager_is_master(ask, expect):
    """Without a subnet manager, active links stay active, but no other link becomes active."""
    manager = ask(MANAGER)
    expect(manager.state if manager else "no subnet manager answers", "MASTER")
