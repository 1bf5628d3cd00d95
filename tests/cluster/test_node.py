"""Every node is there, is itself, and is well."""

from __future__ import annotations

from cluster.probes.identity import CLOCK, HOSTS, IDENTITY, INODES, MEMORY, NETWORK, REBOOT, RESOLVED, SPACE, SYSTEM
from cluster.probes.neighbours import WAYS
from rackwright.errors import CouldNotTell


def test_answers_in_time(node, cluster, raw, members, expect, limit):
    """A node that takes seconds longer than the quickest is about to stop answering; that all are slow is this machine's fault."""
    took = {name: answer.arrived - answer.sent for name in members("nodes") if not (answer := raw(CLOCK, of=name)).trouble}
    if node.name not in took:
        raise CouldNotTell(raw(CLOCK).trouble)
    mine = took.pop(node.name)
    others = sorted(took.values()) or [0.0]
    # Nodes of a lab wait for this machine's cores by turns, so that many are slow by chance; machines of their own have no such excuse.
    beside = 2 * others[(len(others) - 1) * 3 // 4] if cluster.target == "lab" else others[0]
    allowed = limit + beside
    expect(f"{mine:.1f} s", f"at most {allowed:.1f} s", holds=mine <= allowed)


def test_hostname_matches_plan(node, ask, expect):
    """Behind the right address may be the wrong machine."""
    expect(ask(IDENTITY).hostname, node.name)


def test_os_matches_plan(node, ask, expect):
    """A node installed by hand may have another release, with other versions of everything."""
    expect(ask(IDENTITY).os, node.os)


def test_machine_id_is_unique(node, ask, members, expect):
    """Copied images share it, and with it DHCP leases and journal names."""
    mine, twins = ask(IDENTITY).machine_id, []
    for name in members("nodes"):
        try:
            if name != node.name and ask(IDENTITY, of=name).machine_id == mine:
                twins.append(name)
        except CouldNotTell:  # a node that cannot be asked is no twin for all we know; its own check says so
            continue
    expect(f"shared with {', '.join(twins)}" if twins else "its own", "its own")


def test_time_zone_matches_plan(cluster, ask, expect):
    """Logs of different zones cannot be laid side by side."""
    expect(ask(IDENTITY).time_zone, cluster.time_zone)


def test_boot_has_finished(ask, expect):
    """While units are still starting, any other answer is about something else a second later."""
    state = ask(SYSTEM).state
    expect(state, "running or degraded", holds=state in ("running", "degraded"))


def test_no_unit_has_failed(ask, expect):
    """A failed unit is something that was wanted and is not there."""
    expect(ask(SYSTEM).failed, ())


def test_clock_is_in_step(node, ask, clocks, common_clock, expect, limit):
    """Munge refuses credentials of another time, and make, logs and leases go wrong before that."""
    ask(CLOCK)  # a node that did not answer is unknown, and no part of the median
    mine = clocks[node.name]
    apart, unsure = abs(mine.seconds - common_clock), mine.uncertainty
    if abs(apart - limit) < unsure and apart + unsure > limit:
        raise CouldNotTell(f"{apart:.1f} s apart, give or take {unsure:.1f} s: the answer took too long to be sure")
    expect(f"{apart:.1f} s from the cluster's median", f"at most {limit:g} s", holds=apart <= limit)


def test_hosts_file_matches_plan(cluster, ask, expect):
    """Names must work when DNS does not, and an entry too many sends traffic to a machine that is gone."""
    planned = {host.address: {host.name, host.fqdn} for host in cluster.hosts}
    expect({address: set(names) for address, names in ask(HOSTS).items()}, planned)


def test_names_resolve(cluster, ask, expect):
    """What programs get when they ask for a node, by whatever way names are looked up here."""
    expect(ask(RESOLVED), {host.name: host.address for host in cluster.hosts})


def test_address_matches_plan(node, cluster, ask, expect):
    """A second address on the same interface is a second identity for Slurm and the firewall; one that moves is none."""
    interface, moving = ask(NETWORK).holder(node.address), getattr(cluster.scheduler, "virtual_address", None)
    found = interface.addresses if interface else [one.addresses for one in ask(NETWORK).interfaces]
    expect(tuple(one for one in found if one != moving) if "controller" in node.roles else found, (node.address,))


def test_mac_matches_plan(node, ask, expect):
    """Neighbours remember the MAC of an address for a minute: a new one behind an old address is silent for that long."""
    if node.mac is None:
        raise CouldNotTell("the plan gives this node no MAC")
    interface = ask(NETWORK).holder(node.address)
    if interface is None:
        raise CouldNotTell(f"no interface has the address {node.address}")
    expect(interface.mac.lower(), node.mac.lower())


def test_default_route_matches_plan(cluster, ask, expect):
    """Without the way out nothing can be fetched; with another one it is fetched past the firewall."""
    expect(ask(NETWORK).gateways, (cluster.network.gateway,))


def test_loses_no_packets(ask, expect, limit):
    """Where one packet in a hundred is lost, everything works and is slow. Lost to one neighbour alone, they are lost at that one."""
    ways = ask(WAYS)
    heard = [way for way in ways if way.answered]
    if not heard:
        raise CouldNotTell(
            f"no answer to a ping came from {' or '.join(way.address for way in ways)}: they are away, or somebody filters it"
        )
    heard = [way for way in heard if way.is_counted]
    if not heard:
        raise CouldNotTell("the node had no time to send all its pings, so that what is unanswered may be on its way")
    found = ", ".join(f"{way.lost:.0f} % on the way to {way.address} and back" for way in heard)
    expect(found, f"at most {limit:g} %", holds=min(way.lost for way in heard) <= limit)


def test_memory_matches_plan(node, ask, expect, limit):
    """A DIMM that is not seen leaves a node that works, with less. Firmware and kernel keep a part for themselves."""
    found = ask(MEMORY)
    expect(f"{found} MiB", f"at least {limit:.0%} of {node.memory_mib} MiB", holds=found >= node.memory_mib * limit)


def test_file_systems_have_space(ask, expect, limit):
    """A full disk stops logs first and daemons next."""
    expect(
        [f"{one.mount} {one.used} %" for one in ask(SPACE) if one.used > limit],
        f"no local file system above {limit:g} %",
        holds=_below(ask(SPACE), limit),
    )


def test_file_systems_have_inodes(ask, expect, limit):
    """A file system without inodes is full although df says it is not."""
    expect(
        [f"{one.mount} {one.used} %" for one in ask(INODES) if one.used > limit],
        f"no local file system above {limit:g} %",
        holds=_below(ask(INODES), limit),
    )


def test_no_reboot_is_pending(ask, expect):
    """An updated kernel or library that is not running yet: the node is not what its packages say."""
    expect("pending" if ask(REBOOT) else "none", "none")


def _below(systems, limit):
    return all(one.used <= limit for one in systems)
