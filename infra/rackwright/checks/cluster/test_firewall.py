"""The packet filter of every node accepts what the plan needs, and nothing from outside."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from rackwright.catalog import ports
from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.firewall import METADATA_SERVICE, RULESET, Packet
from rackwright.checks.cluster.probes.firewall_file import COMPARISON
from rackwright.checks.cluster.probes.units import FIREWALL, UNITS
from rackwright.errors import UndeterminedError

EXTERNAL_ADDRESS = "203.0.113.9"
"""An address of the documentation range (RFC 5737): never assigned to a host."""
EXTERNAL_ADDRESS_6 = "2001:db8::cb00:7109"
"""An address of the documentation range of IPv6 (RFC 3849)."""

POD_PORTS = (53, 80, 443, 6443, 8080, 9153, 10250, 30000, 32767)
"""Ports on which pods and services commonly answer, and the ends of the range of node ports."""


def test_default_drop(ask: Ask, expect: Expect) -> None:
    """A filter that accepts by default blocks only the traffic that its rules name."""
    policies = ask(RULESET).input_policies
    expect(policies, "drop", holds="drop" in policies)


def test_blocks_external(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """No service may be reachable from outside the cluster; on a jump host, SSH is the one exception."""
    ruleset = ask(RULESET)
    is_entry = node.name in cluster.access.jump_hosts or not cluster.access.jump_hosts
    open_to = [node.ssh_port] if is_entry else []
    tested = [node.ssh_port, 111, 8080, *(port for one in ports() for port in (one.first, one.last))]
    outside = [EXTERNAL_ADDRESS, cluster.network.gateway or EXTERNAL_ADDRESS, EXTERNAL_ADDRESS_6]
    found = {source: [port for port in tested if ruleset.admits(_packet(source, port, node.address))] for source in outside}
    expect(
        {source: [port for port in admitted if port not in open_to] for source, admitted in found.items()},
        {source: [] for source in outside},
    )


def test_allows_login_node(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """The jump host is the only route to the other nodes."""
    ruleset = ask(RULESET)
    entries = {host.name: host.address for host in cluster.hosts if host.name in cluster.access.jump_hosts}
    found = [name for name, address in entries.items() if ruleset.admits(Packet(address, node.ssh_port, node.address))]
    expect(found, list(entries))


def test_admits_only_allowed_networks(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """The published port is for the networks that the plan allows."""
    ruleset = ask(RULESET)
    allowed = {network: _address_in(ip_network(network)) for network in cluster.access.allow}
    for name, source in (("others", EXTERNAL_ADDRESS), ("others over IPv6", EXTERNAL_ADDRESS_6)):
        if not any(ip_address(source) in ip_network(network) for network in cluster.access.allow):
            allowed[name] = source
    found = [network for network, source in allowed.items() if ruleset.admits(_packet(source, node.ssh_port, node.address))]
    expect(found, cluster.access.allow)


def test_forwards_only_the_cluster(node: Record, cluster: Record, planned: Record, ask: Ask, expect: Expect) -> None:
    """Traffic from outside to pods and services is forwarded, not delivered locally, and so bypasses the node's input rules."""
    ruleset = ask(RULESET)
    outside = [EXTERNAL_ADDRESS, *([cluster.network.gateway] if cluster.network.gateway else [])]
    inside = [other.address for other in cluster.hosts if other.name != node.name]
    pod = str(ip_network(planned.pods or cluster.scheduler.pods)[2])
    found = {
        source: [port for port in POD_PORTS if ruleset.admits(Packet(source, port, pod, leaves_by="cni0"))]
        for source in (*outside, *inside)
    }
    expect(found, {source: [] if source in outside else list(POD_PORTS) for source in found})


def test_loaded_rules_match_file(ask: Ask, expect: Expect) -> None:
    """Rules that were added or removed by hand hold until the next reload, whatever the file declares."""
    found = ask(COMPARISON)
    expect(list(found.differences) if found.declared else ["no file that defines a table"], [])


def test_starts_with_the_node(ask: Ask, expect: Expect) -> None:
    """Rules that were loaded by hand are lost at the next boot."""
    unit = ask(UNITS)[FIREWALL]
    expect(unit.described, "starts with the node", holds=unit.enabled and unit.state == "active")


def test_metadata_service_restricted(ask: Ask, expect: Expect) -> None:
    """Access to the metadata service means the instance's credentials: a job would get its permissions, and the keys passed at boot."""
    found = ask(METADATA_SERVICE)
    if set(found.values()) == {"silent"}:
        raise UndeterminedError("the metadata service does not answer, not even to root")
    if found["nobody"] == "silent":  # the planned rule rejects, so that a time-out is not its refusal
        raise UndeterminedError("the metadata service did not answer `nobody` in time: neither a refusal nor an answer")
    expect(f"nobody: {found['nobody']}", "nobody: refused")


def _packet(source: str, port: int, address: str) -> Packet:
    """Return a packet to the node. Its IPv6 address is not in the plan."""
    return Packet(source, port, "" if ":" in source else address)


def _address_in(network: IPv4Network | IPv6Network) -> str:
    """Return an address of the network; for 0.0.0.0/0 and ::/0, an unassigned one."""
    if network.prefixlen == 0:
        return EXTERNAL_ADDRESS if isinstance(network, IPv4Network) else EXTERNAL_ADDRESS_6
    return str(network[min(1, network.num_addresses - 1)])
