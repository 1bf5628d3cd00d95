"""Probes of file systems: mounts, shared and local ones, exports and the NFS server of a node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, scaled
from rackwright.checks.cluster.harness.tool_output import (
    Lines,
    Row,
    UnreadableValue,
    answer_of,
    integer,
    quoted,
    read_each_line,
    whole_lines,
)
from rackwright.checks.cluster.probes.existing_storage import is_existing, is_planned_source, planned_options, types_of

TYPES: Final = {"moosefs": ("fuse.mfs", "fuse"), "nfs": ("nfs4",), "fsx-lustre": ("lustre",)}
"""Types in the kernel's mount table by kind of storage."""

OPTIONS: Final = ("rw", "nosuid", "nodev")
"""Options of every mount."""
EXPORTED: Final = ("rw", "sync", "no_subtree_check", "root_squash")
"""Options of every export (exports(5)). exportfs also prints default options."""


@dataclass(frozen=True)
class Mount:
    """One line of the mount table."""

    point: str
    device: str
    """Device number of the file system, as major:minor."""
    root: str
    """Folder of the file system that is mounted."""
    type: str
    source: str
    options: frozenset[str]

    @property
    def effective(self) -> frozenset[str]:
        """Return the effective options: one `ro`, of the mount or of its file system, makes the mount read-only."""
        return self.options - {"rw"} if "ro" in self.options else self.options

    def holds(self, one: SimpleNamespace, addresses: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Return whether the mount is the planned storage: of its kind, and from its server where the cluster has one.

        `addresses`: address by node, for a source that names the server by its address.
        """
        if is_existing(one):
            return self.type in types_of(one) and is_planned_source(one, self.source)
        return self.type in TYPES.get(one.kind, ()) and self._is_from(one, addresses)

    def _is_from(self, one: SimpleNamespace, addresses: Mapping[str, str]) -> bool:
        if one.kind != "moosefs" and one.folder is None:
            return True
        found = _SOURCE.fullmatch(self.source)
        if found is None or not _is_server(found["host"].strip("[]"), one.servers[0], addresses):
            return False
        return bool(one.kind == "moosefs" or str(PurePosixPath(found["path"])) == one.folder)


_SOURCE: Final = re.compile(r"(?:mfs#)?(?P<host>\[[^\]]+\]|[^:]+):(?P<path>.*)")
"""Source of a mount: `server:/folder`, `[address]:/folder`, `mfs#server:port`."""


def _is_server(host: str, server: str, addresses: Mapping[str, str]) -> bool:
    """Return whether a source names the server: by its name, with or without a domain, or by its address.

    >>> [_is_server(host, "storage0", {"storage0": "10.0.0.9"}) for host in ("storage0.lab.example", "10.0.0.9", "storage01")]
    [True, True, False]
    """
    return host.lower().partition(".")[0] == server or host == addresses.get(server)


def parse_mounts(text: str) -> Lines[Mount]:
    """Return mounts of /proc/self/mountinfo by mount point. Of stacked mounts, the last one is visible. The source may be empty."""
    found = read_each_line(text, _mount)
    if "/" not in found:
        raise ValueError("no root file system")
    return found


def _mount(line: str) -> tuple[str, Mount]:
    before, mark, after = line.partition(" - ")
    cells, (kind, source, super_options) = before.split(" "), after.split(" ", 2)
    if not mark or not re.fullmatch(r"\d+:\d+", cells[2]) or not cells[4].startswith("/") or not (kind and cells[5] and super_options):
        raise ValueError("no mount")
    point = _unescape(cells[4])
    options = frozenset(cells[5].split(",")) | frozenset(re.split("[ ,]", super_options))  # 9p escapes no blank in `path=C:\\Program Files`
    if not options & {"ro", "rw"}:
        raise ValueError("a mount that is neither read-only nor writable")
    return point, Mount(point, cells[2], _unescape(cells[3]), kind, _unescape(source), options)


def _unescape(text: str) -> str:
    r"""Return a text without the octal escapes of the kernel for space, tab, newline, backslash and #.

    >>> _unescape(r"mfs\043storage0")
    'mfs#storage0'
    """
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("043", "#"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text


def is_there(
    mounts: Mapping[str, Mount],
    one: SimpleNamespace,
    node: str,
    addresses: Mapping[str, str] = MappingProxyType({}),
    *,
    in_pod: bool = False,
) -> bool:
    """Return whether a node has the planned storage at its mount point. Its server has the folder itself.

    A bind mount of one of its folders is another mount, except in a pod, which gets such a folder.
    """
    if exported_by(one, node):
        return is_same_folder(mounts, one.mount, one.folder)
    mount = mounts.get(one.mount)
    return mount is not None and mount.holds(one, addresses) and (in_pod or mount.root == "/")


def options_of(one: SimpleNamespace, node: str) -> set[str]:
    """Return the options that a node's mount must have, in the kernel's notation."""
    if is_existing(one):
        return planned_options(one)
    if one.kind != "nfs":
        return set(OPTIONS)
    if exported_by(one, node):
        return {*OPTIONS, "noatime"}
    return {*OPTIONS, "noatime", "hard", "vers=4.2", *(("proto=rdma", "port=20049") if one.rdma else (f"nconnect={one.nconnect}",))}


def exported_by(one: SimpleNamespace, node: str) -> bool:
    """Return whether the node exports the storage over NFS."""
    return one.kind == "nfs" and node in one.servers


def is_same_folder(mounts: Mapping[str, Mount], point: str, folder: str) -> bool:
    """Return whether the mount at a point is that folder of this node, by whatever path it was mounted."""
    above = max(
        (mount for mount in mounts.values() if PurePosixPath(folder).is_relative_to(mount.point)), key=lambda mount: len(mount.point)
    )
    inside = PurePosixPath(above.root) / PurePosixPath(folder).relative_to(above.point)
    mount = mounts.get(point)
    return mount is not None and (mount.device, mount.root) == (above.device, str(inside))


MOUNTS = Probe("mounts", on="storage_client", command="cat /proc/self/mountinfo", parse=parse_mounts)


@dataclass(frozen=True)
class Transport:
    """Transports of an NFS mount, as the kernel uses them: a second mount of a server joins those of the first one."""

    protocol: str
    """Value of the mount's option proto."""
    connections: tuple[str, ...]
    """Kind of each connection, such as tcp or rdma."""


def parse_transports(text: str) -> Lines[Transport]:
    """Return the transports of NFS mounts by mount point, from /proc/self/mountstats (net/sunrpc/xprtsock.c, xprtrdma/transport.c)."""
    if not text.lstrip().startswith("device "):
        raise ValueError("no mount statistics")
    found: dict[str, Transport] = {}
    unread: list[str] = []
    for block in re.split(r"^(?=device )", text, flags=re.MULTILINE)[1:]:
        head = re.match(r"device .* mounted on (\S+) with fstype nfs4?\b", block)
        if head is None:
            continue
        protocol = re.search(r"^\s+opts:.*[,\t ]proto=(\w+)", block, re.MULTILINE)
        connections = tuple(re.findall(r"^\s+xprt:\s+(\w+)", block, re.MULTILINE))
        if protocol and connections:
            found[_unescape(head[1])] = Transport(protocol[1], connections)
        else:
            unread.append(block.splitlines()[0])
    return Lines(found, tuple(unread))


TRANSPORTS = Probe("nfs-transports", on="storage_client", command="cat /proc/self/mountstats", parse=parse_transports)


WRITABLE: Final = "writable"
READ_ONLY: Final = "read-only"
"""State of a file system that was mounted read-only."""
_LOCAL: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs", "nilfs2", "bcachefs", "vfat", "exfat", "ntfs3", "tmpfs"}
)
"""Types of file systems that are written to locally."""
_FAILED: Final = frozenset({"emergency_ro", "shutdown"})
"""Options that ext4 shows after an error, from Linux 6.15 on (fs/ext4/super.c); the file system then still is `rw`."""
_LOCAL_END: Final = "end"


def parse_local_mounts(text: str) -> Lines[str]:
    """Return the state of local file systems by mount point, from mountinfo, /etc/fstab and errors of XFS; of a device, its shortest one.

    After an error (errors=remount-ro), the file system is read-only and its mount is not: proc_pid_mountinfo(5), fields 6 and 11.
    An XFS that was shut down refuses every operation (fs/xfs/xfs_iops.c, xfs_vn_getattr).
    """
    lines, partial = whole_lines(text)
    written = {line.split()[2] for line in lines if line.startswith("fstab ") and _is_writable(line)}
    shut = dict(line.split(" ", 1)[1].rsplit("|", 1) for line in lines if line.startswith("xfs "))
    mounts = read_each_line("".join(f"{line}\n" for line in lines if line[:1].isdigit()), _mount_with_fields)
    if "/" not in mounts:
        raise ValueError("no root file system")
    found: dict[str, tuple[str, str]] = {}
    for point, (mount, own) in sorted(mounts.items(), key=lambda item: len(item[0])):
        if mount.type in _LOCAL:
            state = f"{mount.type}: {shut[point]}" if point in shut else _state(mount, own, written=point in written)
            found.setdefault(f"{mount.device} {state}", (point, state))
    unread = (*mounts.unread, *partial, *(() if _LOCAL_END in lines else ("the list of file systems is cut short",)))
    return Lines(dict(found.values()), unread)


def _mount_with_fields(line: str) -> tuple[str, tuple[Mount, frozenset[str]]]:
    """Return a mount with the options of the mount itself, without those of its file system."""
    point, mount = _mount(line)
    return point, (mount, frozenset(line.split(" ")[5].split(",")))


def _state(mount: Mount, own: frozenset[str], *, written: bool) -> str:
    if mount.options & _FAILED:
        return "refuses writes after an error"
    if "ro" in mount.options and "ro" not in own:
        return "read-only after an error"
    if "ro" in mount.options and written:
        return "read-only, and writable in /etc/fstab"
    return READ_ONLY if "ro" in mount.options else WRITABLE


def _is_writable(line: str) -> bool:
    """Return whether a line `fstab <source> <mount point> <type> <options>` mounts a file system for writing (fstab(5))."""
    cells = line.split()
    return len(cells) > 4 and cells[2].startswith("/") and not {"ro", "noauto"} & set(cells[4].split(","))


LOCAL_MOUNTS = Probe(
    "local-mounts",
    on="nodes",
    # The root of a mounted XFS is in memory, so that stat waits for no disk. Escaped names are left out.
    command="cat /proc/self/mountinfo; sed -n 's/^[[:space:]]*\\([^#[:space:]].*\\)/fstab \\1/p' /etc/fstab 2>/dev/null; "
    'while read -r id parent device root m rest; do case "$m|$rest" in *\\\\*"|"*) ;; *" - xfs "*) '
    's=$(stat -c %i "$m" 2>&1) || echo "xfs $m|${s##*: }";; esac; done </proc/self/mountinfo; echo ' + _LOCAL_END,
    parse=parse_local_mounts,
)


@dataclass(frozen=True)
class Root:
    """The root folder of a mounted file system, and the size of the file system."""

    path: str
    owner: str
    mode: str
    size_mib: int


def parse_roots(text: str) -> Lines[Root]:
    """Return root folders by path from lines `path|owner:group|mode|blocks|block size`."""
    found = read_each_line(text, _root)
    if not found:
        raise ValueError("no top folder is listed")
    return found


def _root(line: str) -> tuple[str, Root]:
    path, owner, mode, blocks, size = line.split("|")
    if not (path.startswith("/") and re.fullmatch(r"[0-7]+", mode) and re.fullmatch(r"[^:]+:[^:]+", owner)):
        raise ValueError("no top folder")
    return path, Root(path, owner, mode, int(blocks) * int(size) // 2**20)


def mounts_of(context: ProbeContext) -> list[str]:
    """Return the mount points of the node's shared file systems."""
    return [one["mount"] for one in context.declared.cluster["storage"] if context.node["name"] in one["clients"]]


def _roots(context: ProbeContext) -> str:
    return f"for m in {' '.join(mounts_of(context))}; do echo $(stat -c '%n|%U:%G|%a' $m)'|'$(stat -f -c '%b|%S' $m); done"


ROOTS = Probe("storage-roots", on="storage_client", command=_roots, parse=parse_roots)


ANSWERS: Final = "answers"


def parse_answering(text: str) -> Lines[str | UnreadableValue]:
    """Return the state by path from lines `path|answers`, or with the error (exited client, stale handle). UnreadableValue: time-out.

    >>> parse_answering("/home|stat: cannot read file system information for '/home': Transport endpoint is not connected\\n")
    {'/home': 'Transport endpoint is not connected'}
    """
    found = read_each_line(text, _answer)
    if not found:
        raise ValueError("no mount is listed")
    return found


def _answer(line: str) -> tuple[str, str | UnreadableValue]:
    path, response = line.split("|", 1)
    if not path.startswith("/") or not response.strip():
        raise ValueError("no mount point")
    return path, answer_of(path, response.rpartition(": ")[2].strip())


def _statfs_command(context: ProbeContext) -> str:
    query = f"s=$(timeout -k 1 {scaled(5)} stat -f -c %T $m 2>&1); r=$?"
    report = (
        f'case "$r|$s" in "0|") echo "stat prints nothing" >&2; exit 3;; "0|"*) s={ANSWERS};; '
        f'124*|137*) s="no answer within {scaled(5)} s";; 126*|127*) echo "$s" >&2; exit $r;; esac'
    )
    return f'for m in {" ".join(mounts_of(context))}; do {query}; {report}; echo "$m|$s"; done'


ANSWERING = Probe("storage-answering", on="storage_client", command=_statfs_command, parse=parse_answering)


@dataclass(frozen=True)
class NfsServer:
    """The kernel's NFS server: number of threads and supported versions."""

    threads: int | UnreadableValue
    versions: frozenset[str] | UnreadableValue
    exports: Mapping[str, Mapping[str, frozenset[str]]]
    """Options of each export, by folder and client."""
    unread: tuple[str, ...] = ()
    """Lines of exports that were not read."""


_NOTHING: Final = "nothing"


def parse_nfs_server(text: str) -> NfsServer:
    """Return the server from /proc/fs/nfsd/threads, /proc/fs/nfsd/versions and `exportfs -s`; one word where the node exports nothing."""
    if text.strip() == _NOTHING:
        return NfsServer(0, frozenset(), {})
    whole, partial = whole_lines(text)
    rows = [*whole, *(partial if len(whole) < 2 else ())]
    second = next((number for number, line in enumerate(rows) if number and re.match(r"[+-]\d", line)), 1)
    threads, versions, *lines = rows[second - 1 :]
    spoken = {word[1:] for word in versions.split() if word.startswith("+")} - {"4"}
    row = Row("NFS server", {"threads": threads, "versions": versions}, f"{threads} {versions}")
    sure = re.fullmatch(r"([+-]\d(\.\d)? ?)+", versions.strip()) and versions not in partial
    exports: dict[str, dict[str, frozenset[str]]] = {}
    listed, unread = list(_exports(lines)), list(partial)
    for found in listed:
        if isinstance(found, str):
            unread.append(found)
        else:
            exports.setdefault(found[0], {})[found[1]] = found[2]
    count = row.read("threads", integer)
    if isinstance(count, UnreadableValue) and not sure:
        raise ValueError(f'no NFS server: "{quoted(threads)}"')
    return NfsServer(count, frozenset(spoken) if sure else row.unread("versions"), exports, tuple(unread))


def _exports(lines: list[str]) -> Iterator[tuple[str, str, frozenset[str]] | str]:
    """Yield exports of lines `folder client(option,…)`; spaces in names are octal. A line of another form is yielded unchanged."""
    for line in lines:
        found = re.fullmatch(r"\s*(/\S*)\s+([^\s()]+)\(([^\s()]+)\)\s*", line)
        yield (_unescape(found[1]), found[2], frozenset(found[3].split(","))) if found else line


def _server_command(context: ProbeContext) -> str:
    if any(exported_by(SimpleNamespace(**one), context.node["name"]) for one in context.declared.cluster["storage"]):
        return "cat /proc/fs/nfsd/threads /proc/fs/nfsd/versions && exportfs -s"
    return f"echo {_NOTHING}"


NFS_SERVER = Probe("nfs-server", on="role_storage", command=_server_command, parse=parse_nfs_server)
