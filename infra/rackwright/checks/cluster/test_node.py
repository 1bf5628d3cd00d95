"""Every node is reachable, is the declared machine, and is healthy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue
from rackwright.checks.cluster.probes.directories import OWNERSHIP, directories_of
from rackwright.checks.cluster.probes.disk_errors import DISK_ERRORS
from rackwright.checks.cluster.probes.disk_latency import BUSY_MEGABYTES, BUSY_REQUESTS, DISK_LATENCY
from rackwright.checks.cluster.probes.identity import (
    CLOCK,
    HOSTS,
    IDENTITY,
    INODES,
    MEMORY,
    NETWORK,
    RESOLVED,
    SPACE,
    SYSTEM,
    THREADS,
)
from rackwright.checks.cluster.probes.kernels import REBOOT
from rackwright.checks.cluster.probes.neighbours import PING_STATISTICS, REACHABILITY, Reachability
from rackwright.checks.cluster.probes.storage import LOCAL_MOUNTS, READ_ONLY, WRITABLE
from rackwright.checks.cluster.probes.units import SUSPENDED_UNITS, UNITS
from rackwright.errors import UndeterminedError

if TYPE_CHECKING:  # the health check on a node has no such module
    from rackwright.checks.cluster.harness.clock_offsets import Offset
    from rackwright.checks.cluster.harness.pytest_plugin import CheckPlugin
    from rackwright.checks.cluster.harness.slow_nodes import SlowNodes


def test_ssh_latency(
    node: Record,
    cluster: Record,
    command_output: Ask,
    members: Members,
    slow_nodes: SlowNodes,
    second_answer: Callable[[float], float],
    expect: Expect,
    limit: float,
) -> None:
    """A node that answers seconds later than the fastest is about to fail; if all nodes are slow, the control machine is the cause.

    A late answer is confirmed by a second one: a single stall of the node or of the control machine is no fault.
    """
    took = {name: answer.arrived - answer.sent for name in members("nodes") if not (answer := command_output(CLOCK, of=name)).error}
    if node.name not in took:
        raise slow_nodes.cause_of(command_output(CLOCK), node.name) or UndeterminedError(command_output(CLOCK).error)
    own = took.pop(node.name)
    others = sorted(took.values()) or [0.0]
    # Containers and virtual machines share the control machine's cores, so that many are slow by chance. Separate machines are not.
    beside = 2 * others[(len(others) - 1) * 3 // 4] if cluster.target in ("lab", "vm") else others[0]
    allowed = limit * slow_nodes.processor_factor(node.name) + beside
    if own > allowed and (cause := slow_nodes.cause(node.name)):
        raise cause
    if own > allowed:
        own = min(own, second_answer(allowed))
    expect(f"{own:.1f} s", f"at most {allowed:.1f} s", holds=own <= allowed)


def test_responds_in_time(node: Record, ask: Ask, slow_nodes: SlowNodes, expect: Expect, limit: float) -> None:
    """Time limits grow with the time in which a node starts Python, up to this one. On a slower node, checks and jobs run out of time."""
    judged = slow_nodes.judge(node.name)
    if judged is None:
        ask(CLOCK)  # raises why a node did not respond
        raise UndeterminedError(f"{node.name} did not measure its speed: RACKWRIGHT_SLOWNESS is set in its environment (limit {limit:g} s)")
    expect(judged.found, judged.expected, holds=not judged.is_slow)


def test_hostname_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """The right address may belong to the wrong machine."""
    expect(ask(IDENTITY).hostname, node.name)


def test_os_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A node installed by hand may have another release, with other versions of all packages."""
    expect(ask(IDENTITY).os, node.os)


def test_machine_id_is_unique(node: Record, ask: Ask, members: Members, expect: Expect) -> None:
    """Cloned images share the machine id, and with it DHCP leases and journal names."""
    own, twins = ask(IDENTITY).machine_id, []
    if isinstance(own, UnreadableValue):
        raise UndeterminedError(own.why)
    for name in members("nodes"):
        try:
            if name != node.name and ask(IDENTITY, of=name).machine_id == own:
                twins.append(name)
        except UndeterminedError:  # the check of that node reports the error
            continue
    expect(f"shared with {', '.join(twins)}" if twins else "its own", "its own")


def test_directories_match_defaults(check_plugin: CheckPlugin, node: Record, ask: Ask, expect: Expect) -> None:
    """Without the sticky bit any user replaces the files of others, and a directory that others write to hands them the programs in it."""
    found, wanted = ask(OWNERSHIP), directories_of(check_plugin.context(node.name))
    needed = {path: one for path, one in wanted.items() if path in found or found.unread or not one.optional}
    shown = {
        path: str(one) if one.allows(*found[path]) else "{} {:04o}".format(*found[path]) for path, one in needed.items() if path in found
    }
    expect(Lines(shown, found.unread), {path: str(one) for path, one in needed.items()})


def test_time_zone_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Logs from different time zones cannot be compared line by line."""
    expect(ask(IDENTITY).time_zone, cluster.time_zone)


def test_boot_completed(ask: Ask, expect: Expect) -> None:
    """While units are still starting, the results of other checks can change a second later."""
    state = ask(SYSTEM).state
    if state == "unknown":  # what systemctl(1) prints for a lack of resources
        raise UndeterminedError("systemctl could not determine the state of the system")
    expect(state, "running or degraded", holds=state in ("running", "degraded"))


def test_no_failed_units(ask: Ask, expect: Expect) -> None:
    """A failed unit is a service that was requested and does not run. Logins and commands of users that failed are left out."""
    system = ask(SYSTEM)
    if system.state == "degraded" and not system.failed and not system.of_users:
        raise UndeterminedError("systemctl reports failed units and lists none")
    expect(system.failed, ())


def test_no_suspended_units(ask: Ask, expect: Expect) -> None:
    """systemd reports a suspended daemon as active, and its clients wait for it. Daemons with a check of their own are left out."""
    judged = ask(UNITS)
    expect({unit: state for unit, state in ask(SUSPENDED_UNITS).items() if unit not in judged}, {})


def test_clock_synchronized(
    node: Record, ask: Ask, clocks: Mapping[str, Offset], common_clock: float, expect: Expect, limit: float
) -> None:
    """Munge rejects credentials with another time; make, logs and leases fail at smaller offsets."""
    ask(CLOCK)  # a node that did not respond is unknown, and not part of the median
    own = clocks[node.name]
    apart, unsure = abs(own.seconds - common_clock), own.uncertainty
    if abs(apart - limit) < unsure and apart + unsure > limit:
        raise UndeterminedError(f"{apart:.1f} s from the cluster's median, ± {unsure:.1f} s: the answer took too long for a verdict")
    expect(f"{apart:.1f} s from the cluster's median", f"at most {limit:g} s", holds=apart <= limit)


def test_hosts_file_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Names must resolve without DNS, and a stale entry sends traffic to a machine that is gone."""
    planned = {host.address: {host.name, host.fqdn} for host in cluster.hosts}
    expect({address: set(names) for address, names in ask(HOSTS).items()}, planned)


def test_names_resolve(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Programs must get the planned address of every node, with the node's own name service configuration."""
    expect(ask(RESOLVED), {host.name: host.address for host in cluster.hosts})


def test_address_matches_plan(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """A second address on the interface is a second identity for Slurm and the firewall. The control plane's virtual address is exempt.

    On existing machines, so are addresses outside the cluster's network: packets to other nodes never carry them.
    """
    interface, moving = ask(NETWORK).holder(node.address), getattr(cluster.scheduler, "virtual_address", None)
    found = interface.addresses if interface else [one.addresses for one in ask(NETWORK).interfaces]
    if interface and cluster.target == "hosts":
        inside = ip_network(cluster.network.cidr)
        found = tuple(one for one in found if ip_address(one) in inside)
    expect(tuple(one for one in found if one != moving) if "controller" in node.roles else found, (node.address,))


def test_mac_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """Neighbours cache the MAC of an address for a minute: a new MAC at an old address is unreachable for that long."""
    if node.mac is None:
        raise UndeterminedError("the plan has no MAC for this node")
    interface = ask(NETWORK).holder(node.address)
    if interface is None:
        raise UndeterminedError(f"no interface has the address {node.address}")
    expect(interface.mac.lower(), node.mac.lower())


def test_default_route_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Without the default route nothing can be downloaded; with another one, downloads bypass the firewall."""
    expect(ask(NETWORK).gateways, (cluster.network.gateway,))


def test_no_packet_loss(ask: Ask, expect: Expect, limit: float) -> None:
    """With one packet in a hundred lost, everything works but slowly. Loss to a single neighbour is a fault of that neighbour."""
    ways = ask(PING_STATISTICS)
    replying = [way for way in ways if way.answered]
    if not replying:
        raise UndeterminedError(
            f"no reply to ping from {' or '.join(way.address for way in ways)}: the neighbours are down, or ICMP is filtered"
        )
    replying = [way for way in replying if way.is_counted]
    if not replying:
        raise UndeterminedError("the node could not send all pings in time; missing replies may still be in flight")
    found = ", ".join(f"{way.loss_percent:.0f} % on the round trip to {way.address}" for way in replying)
    expect(found, f"at most {limit:g} %", holds=min(way.loss_percent for way in replying) <= limit)


def test_neighbours_reachable(node: Record, ask: Ask, expect: Expect) -> None:
    """A cable, a switch port or a rule that separates two nodes is noticed by a job that needs both, hours later."""
    own = ask(REACHABILITY)
    if own and not any(reach.answered for reach in own.values()):
        raise UndeterminedError(f"no reply to ping from {', '.join(own)}: ICMP is filtered, or the node is cut off")
    missing = [key for key, reach in own.items() if not reach.answered and not is_neighbours_fault(reach, own, ask)]
    expect(dict.fromkeys(missing, "no reply"), dict.fromkeys(missing, "a reply"))
    if own.unread:
        raise UndeterminedError(f'a ping could not be sent: "{own.unread[0]}"')


def is_neighbours_fault(reach: Reachability, mine: Mapping[str, Reachability], ask: Ask) -> bool:
    """Return whether a neighbour that does not reply has no replies on that network either. Its own check then reports the fault.

    If this node has no replies there either, the fault is its own, or one of both nodes.
    """
    if not any(other.answered for other in mine.values() if other.network == reach.network):
        return False
    try:
        others = [other for other in ask(REACHABILITY, of=reach.neighbour).values() if other.network == reach.network]
    except UndeterminedError:
        return True
    return not any(other.answered for other in others)


def test_threads_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A firmware update can switch simultaneous multithreading on or off: Slurm then drains the node, or jobs share cores."""
    found = ask(THREADS)
    expect(found.described, str(node.threads_per_core), holds=found.per_core == (node.threads_per_core,))
    if getattr(node, "sockets", None) is None:
        return
    if found.sockets is None:
        raise UndeterminedError("lscpu does not print the socket of a CPU")
    expect(f"{found.sockets} sockets", f"{node.sockets} sockets")


def test_memory_matches_plan(node: Record, ask: Ask, expect: Expect, limit: float) -> None:
    """A node with an undetected DIMM works, with less memory. Firmware and kernel reserve a part."""
    found = ask(MEMORY)
    expect(f"{found} MiB", f"at least {limit:.0%} of {node.memory_mib} MiB", holds=found >= node.memory_mib * limit)


def test_disk_space(ask: Ask, expect: Expect, limit: float) -> None:
    """A full disk stops logs first and daemons next."""
    expect(_above(ask(SPACE), limit), f"no local file system above {limit:g} %", holds=_below(ask(SPACE), limit))


def test_file_systems_have_inodes(ask: Ask, expect: Expect, limit: float) -> None:
    """A file system without free inodes is full, although df shows free space."""
    expect(_above(ask(INODES), limit), f"no local file system above {limit:g} %", holds=_below(ask(INODES), limit))


def test_local_file_systems_writable(ask: Ask, expect: Expect) -> None:
    """After a disk error the kernel refuses writes: the node answers and takes jobs, and logs, spool and job output are lost."""
    found = ask(LOCAL_MOUNTS)
    expect({point: state for point, state in found.items() if state not in (WRITABLE, READ_ONLY)}, {})
    if found.unread:
        raise UndeterminedError(f'a file system cannot be read: "{found.unread[0]}"')


def test_disk_responds_in_time(node: Record, ask: Ask, slow_nodes: SlowNodes, expect: Expect, limit: float) -> None:
    """Daemons and databases wait until a write is on the disk. A disk that is late because of other work passes."""
    found = ask(DISK_LATENCY)
    allowed = limit * slow_nodes.processor_factor(node.name)
    in_time = found.median_ms <= allowed
    if not in_time and found.is_busy is None:
        raise UndeterminedError(f"{found}, more than {allowed:g} ms; its disk counts no requests, so that it may be busy or slow")
    work = "" if in_time else f"; the disk completed {found.work}"
    expected = f"at most {allowed:g} ms, or a disk that completes {BUSY_REQUESTS} requests or {BUSY_MEGABYTES} MB per second"
    expect(f"{found}{work}", expected, holds=in_time or bool(found.is_busy))


def test_no_disk_errors(ask: Ask, expect: Expect) -> None:
    """A disk that cannot read some of its blocks, or a file system with errors, goes on for days: files are wrong and jobs end."""
    found = ask(DISK_ERRORS)
    expect(dict(found), {})
    if found.unread:
        raise UndeterminedError(f'a line of the kernel log cannot be read: "{found.unread[0]}"')


def test_no_reboot_required(ask: Ask, expect: Expect) -> None:
    """The node runs an older kernel or library than its packages show until it reboots."""
    expect("pending" if ask(REBOOT) else "none", "none")


def _above(systems: Iterable[Any], limit: float) -> list[str | UnreadableValue]:
    """Return the file systems above the limit, and those whose usage is unknown."""
    return [one.used if isinstance(one.used, UnreadableValue) else f"{one.mount} {one.used} %" for one in systems if not _fits(one, limit)]


def _below(systems: Iterable[Any], limit: float) -> bool:
    return all(isinstance(one.used, UnreadableValue) or one.used <= limit for one in systems)


def _fits(one: Any, limit: float) -> bool:
    return not isinstance(one.used, UnreadableValue) and one.used <= limit
