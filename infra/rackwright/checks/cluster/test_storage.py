"""Shared file systems: mounted on all clients as declared, served, and consistent between nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import Lines, MissingAnswer, UnreadableValue
from rackwright.checks.cluster.probes.existing_storage import ACCESS, READABLE, WRITABLE, UserAccess, is_existing, shown_options
from rackwright.checks.cluster.probes.smoke import FILE_CONTENTS, SMOKE
from rackwright.checks.cluster.probes.storage import (
    ANSWERING,
    ANSWERS,
    EXPORTED,
    MOUNTS,
    NFS_SERVER,
    ROOTS,
    TRANSPORTS,
    Mount,
    Root,
    exported_by,
    is_there,
    options_of,
)
from rackwright.checks.cluster.probes.storage_usage import USAGE
from rackwright.checks.cluster.probes.units import UNITS, servers_of
from rackwright.errors import UndeterminedError


def test_is_mounted(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """If the file system is not mounted, its folder stores all writes on the node's own disk."""
    mounts = ask(MOUNTS)
    found = {
        one.mount: one.kind if is_there(mounts, one, node.name, _addresses(cluster)) else _mount_text(mounts, one.mount)
        for one in _storage_of(node, cluster)
    }
    expect(found, {one.mount: one.kind for one in _storage_of(node, cluster)})


def test_answers(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """A mount whose client died, or whose handle is stale, is still in the mount table, and fails for every program that uses it."""
    expect(ask(ANSWERING), dict.fromkeys((one.mount for one in _storage_of(node, cluster)), ANSWERS))


def test_options_match_plan(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """Many file systems turn read-only after an error; setuid programs and devices are not permitted on shared storage.

    Over NFS, a mount that is not hard fails writes when its server restarts, and NFS before 4.2 lacks sparse files and server-side copy.
    """
    wanted = {one.mount: options_of(one, node.name) for one in _storage_of(node, cluster)}
    found: dict[str, set[str] | frozenset[str] | UnreadableValue] = {}
    for one in _storage_of(node, cluster):
        mount = _mounted(ask, one, node, cluster)
        found[one.mount] = mount if isinstance(mount, UnreadableValue) else wanted[one.mount] & shown_options(one, mount.effective)
    expect(found, wanted)


def test_nfs_transport_matches_plan(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """A second mount of a server joins the connections of the first one, whatever its options: what counts is what the kernel uses."""
    planned = [one for one in _storage_of(node, cluster) if one.kind in ("nfs", "existing-nfs") and not exported_by(one, node.name)]
    transports = ask(TRANSPORTS)
    found: dict[str, str | UnreadableValue] = {}
    wanted: dict[str, str] = {}
    for one in planned:
        protocol = "rdma" if one.rdma else "tcp"
        transport = transports.at(one.mount)
        wanted[one.mount] = protocol if one.rdma else f"{protocol}, {one.nconnect} connections"
        if transport is None or isinstance(transport, UnreadableValue):
            found[one.mount] = transport if transport is not None else MissingAnswer(one.mount, "not mounted over NFS")
            continue
        # Over IPv6 the option is tcp6 or rdma6, and the transport tcp or rdma (include/linux/sunrpc/msg_prot.h).
        kinds = sorted({transport.protocol.removesuffix("6"), *transport.connections})
        # Another mount of the server may have more connections, which this one shares.
        count = len(transport.connections)
        enough = one.rdma or count >= one.nconnect
        found[one.mount] = wanted[one.mount] if kinds == [protocol] and enough else f"{' and '.join(kinds)}, {count} connections"
    expect(found, wanted)


def test_root_ownership(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """The plan defines who may write to the top folder."""
    found = {one.mount: _root(ask, one, node, cluster) for one in _created_of(node, cluster)}
    expect(
        {mount: root if isinstance(root, UnreadableValue) else f"{root.owner} {root.mode}" for mount, root in found.items()},
        {one.mount: f"root:root {int(one.mode, 8):o}" for one in _created_of(node, cluster)},
    )


def test_size_matches_plan(node: Record, ask: Ask, cluster: Record, expect: Expect, limit: float) -> None:
    """A missing server is missing space. Metadata and spare copies use a part."""
    found: dict[str, str | UnreadableValue] = {}
    planned = {one.mount: f"{one.size_mib} MiB within {limit:.0%}" for one in _created_of(node, cluster)}
    for one in _created_of(node, cluster):
        root = _root(ask, one, node, cluster)
        if isinstance(root, UnreadableValue):
            found[one.mount] = root
        elif abs(root.size_mib - one.size_mib) <= limit * one.size_mib:
            found[one.mount] = planned[one.mount] = f"{root.size_mib} MiB"
        else:
            found[one.mount] = f"{root.size_mib} MiB"
    expect(found, planned)


def test_space_available(node: Record, ask: Ask, cluster: Record, expect: Expect, limit: float) -> None:
    """A full file system fails every write, or blocks it: clients of MooseFS wait for space without an error."""
    found: dict[str, str | UnreadableValue] = {}
    wanted = {one.mount: f"at most {limit:g} % of space and inodes used" for one in _created_of(node, cluster)}
    for one in _created_of(node, cluster):
        mount = _mounted(ask, one, node, cluster)
        usage = mount if isinstance(mount, UnreadableValue) else ask(USAGE).at(one.mount)
        if usage is None or isinstance(usage, UnreadableValue):
            found[one.mount] = usage or MissingAnswer(one.mount, "not listed")
            continue
        above = {"space": usage.space, "inodes": usage.inodes or 0.0}
        text = ", ".join(f"{share:.0f} % of {name} used" for name, share in above.items() if share > limit)
        found[one.mount] = text or wanted[one.mount]
    expect(found, wanted)


def test_users_have_access(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """Users write to an existing file system with their own rights; root, which the server may map to another user, proves nothing.

    With Kerberos, a user needs a ticket, which no check has: such a file system is left out.
    The report also shows the free space and inodes, which are the concern of the server's operators.
    """
    found: dict[str, str | UnreadableValue] = {}
    wanted: dict[str, str] = {}
    for one in (one for one in _storage_of(node, cluster) if is_existing(one) and (one.existing.sec or "sys") == "sys"):
        mount, access = _mounted(ask, one, node, cluster), ask(ACCESS).at(one.mount)
        wanted[one.mount] = READABLE if one.existing.read_only else WRITABLE
        if isinstance(mount, UnreadableValue):
            found[one.mount] = mount
        elif not isinstance(access, UserAccess) or isinstance(access.state, UnreadableValue):
            found[one.mount] = access.state if isinstance(access, UserAccess) else access or MissingAnswer(one.mount, "not queried")
        elif access.state == wanted[one.mount]:
            found[one.mount] = wanted[one.mount] = f"{access.folder} {access.state}, {access.free}"
        else:
            found[one.mount] = f"{access.folder}: {access.state}"
    expect(found, wanted)


def test_servers_run(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """Clients wait indefinitely for a server that is down."""
    units = ask(UNITS)
    needed = [unit for one in cluster.storage for unit in servers_of(vars(one), node.name)]
    expect({unit: units[unit].state for unit in needed}, dict.fromkeys(needed, "active"))


def test_exports_match_plan(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """Folders must be exported to the cluster's network only: NFS trusts the UID that a client sends."""
    served = [one for one in cluster.storage if exported_by(one, node.name)]
    server = ask(NFS_SERVER)
    exports = server.exports
    found = {
        one.folder: {client: options.intersection(EXPORTED) for client, options in exports.get(one.folder, {}).items()} for one in served
    }
    expect(Lines(found, server.unread), {one.folder: {cluster.network.cidr: set(EXPORTED)} for one in served})


def test_one_nfs_version_is_served(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """Older versions need a port mapper and daemons that the firewall does not admit; a server without threads does not answer."""
    if not any(exported_by(one, node.name) for one in cluster.storage):
        expect({}, {})
        return
    server = ask(NFS_SERVER)
    threads = server.threads if isinstance(server.threads, UnreadableValue) else min(server.threads, 1)
    expect({"versions": server.versions, "threads": threads}, {"versions": {"4.2"}, "threads": 1})


def test_cross_node_visibility(ask: Ask, members: Members, expect: Expect) -> None:
    """Each node wrote a file in a job; every other node must read it completely."""
    smoke = ask(SMOKE, of=members("@submit")[0])
    smoke.require_jobs_sent()
    wrote = sorted(task.host for job in smoke.jobs if job.name == "plain" for task in job.tasks)
    if not wrote:
        raise UndeterminedError("no job wrote anything")
    expect(ask(FILE_CONTENTS).files, {f"from-{host}": f"written by a job on {host}" for host in wrote})


def test_no_lost_writes(ask: Ask, members: Members, expect: Expect) -> None:
    """All nodes wrote to one file at the same time, in turns; no line may be lost or torn."""
    smoke = ask(SMOKE, of=members("@submit")[0])
    smoke.require_jobs_sent()
    planned = {}
    for job in (job for job in smoke.jobs if job.name == "plain" and not job.rc):
        planned[len(job.tasks) * smoke.records] = sorted(task.host for task in job.tasks)
    if len(planned) != 1:
        raise UndeterminedError("no completed job in which all nodes wrote to one file")
    (count, hosts), lines = next(iter(planned.items())), ask(FILE_CONTENTS).lines
    whole = [line for number, line in enumerate(lines) if line[:6] == f"{number:06d}" and line[7:].strip() in hosts]
    expect(f"{len(whole)} whole lines of {len(lines)}", f"{count} whole lines of {count}")


def _storage_of(node: SimpleNamespace, cluster: SimpleNamespace) -> list[SimpleNamespace]:
    return [one for one in cluster.storage if node.name in one.clients]


def _created_of(node: SimpleNamespace, cluster: SimpleNamespace) -> list[SimpleNamespace]:
    """Return the file systems that rackwright created; size and mode of others are not planned."""
    return [one for one in _storage_of(node, cluster) if not is_existing(one)]


def _addresses(cluster: Record) -> dict[str, str]:
    """Return the address of each node; the health check on a node has none."""
    return {host.name: host.address for host in getattr(cluster, "hosts", ())}


def _mounted(ask: Ask, one: Record, node: Record, cluster: Record) -> Mount | UnreadableValue:
    """Return the mount of a file system; UnreadableValue if it is not mounted, which another check reports."""
    mounts = ask(MOUNTS)
    if is_there(mounts, one, node.name, _addresses(cluster)):
        return cast("Mount", mounts[one.mount])
    unread = mounts.at(one.mount)
    return unread if isinstance(unread, UnreadableValue) else MissingAnswer(one.mount, "not mounted")


def _root(ask: Ask, one: Record, node: Record, cluster: Record) -> Root | UnreadableValue:
    """Return the root folder of a file system; UnreadableValue if it is not mounted or not listed."""
    mount = _mounted(ask, one, node, cluster)
    found = mount if isinstance(mount, UnreadableValue) else ask(ROOTS).at(one.mount)
    return found if found is not None else UnreadableValue(f"the root of {one.mount}", None, "")


def _mount_text(mounts: Any, point: str) -> Any:
    above = [line for line in mounts.unread if f" {point} " in line]
    if above:
        return UnreadableValue(point, above[0], "")
    if point in mounts:
        folder = f"folder {mounts[point].root} of " if mounts[point].root != "/" else ""
        return f"{folder}{mounts[point].type} from {mounts[point].source}"
    return mounts.at(point) if mounts.unread else "not mounted"
