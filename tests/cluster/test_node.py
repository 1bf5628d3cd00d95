"""Every node is reachable, is the declared machine, and is healthy."""

from __future__ import annotations

from cluster.harness.cells import Unread
from cluster.probes.identity import CLOCK, HOSTS, IDENTITY, INODES, MEMORY, NETWORK, REBOOT, RESOLVED, SPACE, SYSTEM
from cluster.probes.neighbours import WAYS
from rackwright.errors import UndeterminedError


def test_ssh_latency(node, cluster, raw, members, expect, limit):
    """A node that answers seconds later than the fastest is about to fail; if all nodes are slow, the control machine is the cause."""
    took = {name: answer.arrived - answer.sent for name in members("nodes") if not (answer := raw(CLOCK, of=name)).trouble}
    if node.name not in took:
        raise UndeterminedError(raw(CLOCK).trouble)
    mine = took.pop(node.name)
    others = sorted(took.values()) or [0.0]
    # Nodes of a lab share the control machine's cores, so that many are slow by chance; separate machines are not.
    beside = 2 * others[(len(others) - 1) * 3 // 4] if cluster.target == "lab" else others[0]
    allowed = limit + beside
    expect(f"{mine:.1f} s", f"at most {allowed:.1f} s", holds=mine <= allowed)


def test_hostname_matches_plan(node, ask, expect):
    """The right address may belong to the wrong machine."""
    expect(ask(IDENTITY).hostname, node.name)


def test_os_matches_plan(node, ask, expect):
    """A node installed by hand may have another release, with other versions of all packages."""
    expect(ask(IDENTITY).os, node.os)


def test_machine_id_is_unique(node, ask, members, expect):
    """Cloned images share the machine id, and with it DHCP leases and journal names."""
    mine, twins = ask(IDENTITY).machine_id, []
    if isinstance(mine, Unread):
        raise UndeterminedError(mine.why)
    for name in members("nodes"):
        try:
            if name != node.name and ask(IDENTITY, of=name).machine_id == mine:
                twins.append(name)
        except UndeterminedError:  # the check of that node reports the error
            continue
    expect(f"shared with {', '.join(twins)}" if twins else "its own", "its own")


def test_time_zone_matches_plan(cluster, ask, expect):
    """Logs from different time zones cannot be compared line by line."""
    expect(ask(IDENTITY).time_zone, cluster.time_zone)


def test_boot_completed(ask, expect):
    """While units are still starting, the results of other checks can change a second later."""
    state = ask(SYSTEM).state
    if state == "unknown":  # what systemctl(1) prints for a lack of resources
        raise UndeterminedError("systemctl could not determine the state of the system")
    expect(state, "running or degraded", holds=state in ("running", "degraded"))


def test_no_failed_units(ask, expect):
    """A failed unit is a service that was requested and does not run."""
    system = ask(SYSTEM)
    if system.state == "degraded" and not system.failed:
        raise UndeterminedError("systemctl reports failed units and lists none")
    expect(system.failed, ())


def test_clock_synchronized(node, ask, clocks, common_clock, expect, limit):
    """Munge rejects credentials with another time; make, logs and leases fail at smaller offsets."""
    ask(CLOCK)  # a node that did not answer is unknown, and not part of the median
    mine = clocks[node.name]
    apart, unsure = abs(mine.seconds - common_clock), mine.uncertainty
    if abs(apart - limit) < unsure and apart + unsure > limit:
        raise UndeterminedError(f"{apart:.1f} s from the cluster's median, ± {unsure:.1f} s: the answer took too long for a verdict")
    expect(f"{apart:.1f} s from the cluster's median", f"at most {limit:g} s", holds=apart <= limit)


def test_hosts_file_matches_plan(cluster, ask, expect):
    """Names must resolve without DNS, and a stale entry sends traffic to a machine that is gone."""
    planned = {host.address: {host.name, host.fqdn} for host in cluster.hosts}
    expect({address: set(names) for address, names in ask(HOSTS).items()}, planned)


def test_names_resolve(cluster, ask, expect):
    """Programs must get the planned address of every node, with the node's own name service configuration."""
    expect(ask(RESOLVED), {host.name: host.address for host in cluster.hosts})


def test_address_matches_plan(node, cluster, ask, expect):
    """A second address on the interface is a second identity for Slurm and the firewall. The control plane's virtual address is exempt."""
    interface, moving = ask(NETWORK).holder(node.address), getattr(cluster.scheduler, "virtual_address", None)
    found = interface.addresses if interface else [one.addresses for one in ask(NETWORK).interfaces]
    expect(tuple(one for one in found if one != moving) if "controller" in node.roles else found, (node.address,))


def test_mac_matches_plan(node, ask, expect):
    """Neighbours cache the MAC of an address for a minute: a new MAC at an old address is unreachable for that long."""
    if node.mac is None:
        raise UndeterminedError("the plan has no MAC for this node")
    interface = ask(NETWORK).holder(node.address)
    if interface is None:
        raise UndeterminedError(f"no interface has the address {node.address}")
    expect(interface.mac.lower(), node.mac.lower())


def test_default_route_matches_plan(cluster, ask, expect):
    """Without the default route nothing can be downloaded; with another one, downloads bypass the firewall."""
    expect(ask(NETWORK).gateways, (cluster.network.gateway,))


def test_no_packet_loss(ask, expect, limit):
    """With one packet in a hundred lost, everything works but slowly. Loss to a single neighbour is a fault of that neighbour."""
    ways = ask(WAYS)
    heard = [way for way in ways if way.answered]
    if not heard:
        raise UndeterminedError(
            f"no reply to ping from {' or '.join(way.address for way in ways)}: the neighbours are down, or ICMP is filtered"
        )
    heard = [way for way in heard if way.is_counted]
    if not heard:
        raise UndeterminedError("the node could not send all pings in time; missing replies may still be in flight")
    found = ", ".join(f"{way.lost:.0f} % on the round trip to {way.address}" for way in heard)
    expect(found, f"at most {limit:g} %", holds=min(way.lost for way in heard) <= limit)


def test_memory_matches_plan(node, ask, expect, limit):
    """A node with an undetected DIMM works, with less memory. Firmware and kernel reserve a part."""
    found = ask(MEMORY)
    expect(f"{found} MiB", f"at least {limit:.0%} of {node.memory_mib} MiB", holds=found >= node.memory_mib * limit)


def test_disk_space(ask, expect, limit):
    """A full disk stops logs first and daemons next."""
    expect(_above(ask(SPACE), limit), f"no local file system above {limit:g} %", holds=_below(ask(SPACE), limit))


def test_file_systems_have_inodes(ask, expect, limit):
    """A file system without free inodes is full, although df shows free space."""
    expect(_above(ask(INODES), limit), f"no local file system above {limit:g} %", holds=_below(ask(INODES), limit))


def test_no_reboot_required(ask, expect):
    """The node runs an older kernel or library than its packages show until it reboots."""
    expect("pending" if ask(REBOOT) else "none", "none")


def _above(systems, limit):
    """Return the file systems above the limit, and those of which that is unknown."""
    return [one.used if isinstance(one.used, Unread) else f"{one.mount} {one.used} %" for one in systems if not _fits(one, limit)]


def _below(systems, limit):
    return all(isinstance(one.used, Unread) or one.used <= limit for one in systems)


def _fits(one, limit):
    return not isinstance(one.used, Unread) and one.used <= limit
