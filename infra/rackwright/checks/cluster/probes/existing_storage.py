"""Existing file systems: what a mount of one looks like in the kernel's mount table, and what a user may do on it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import TOOL_SECONDS, Probe, ProbeContext, scaled
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, answer_of, read_each_line

NFS: Final = "existing-nfs"
LUSTRE: Final = "existing-lustre"
_ADDRESS: Final = re.compile(r"[0-9.]+")


def is_existing(one: SimpleNamespace) -> bool:
    """Return whether the servers of a planned file system are not managed by rackwright."""
    return one.kind in (NFS, LUSTRE)


def types_of(one: SimpleNamespace) -> tuple[str, ...]:
    """Return the types of an existing file system in the mount table: NFS 3 and 4 are two (fs/nfs/fs_context.c)."""
    if one.kind == LUSTRE:
        return ("lustre",)
    return ("nfs",) if one.existing.version == "3" else ("nfs4",)


def is_planned_source(one: SimpleNamespace, source: str) -> bool:
    """Return whether a source of the mount table is the planned one."""
    return (_is_same_lustre if one.kind == LUSTRE else _is_same_export)(source, one.source)


def _is_same_export(found: str, planned: str) -> bool:
    """Return whether two sources of NFS mounts are the same, however slashes and capitals are written.

    >>> _is_same_export("NAS.example.org:/export/home/", "nas.example.org:/export/home"), _is_same_export("nas:/export", "nas:/export/home")
    (True, False)
    """
    (host, _, path), (planned_host, _, planned_path) = found.rpartition(":/"), planned.rpartition(":/")
    return host.lower() == planned_host.lower() and PurePosixPath("/", path) == PurePosixPath("/", planned_path)


def _is_same_lustre(found: str, planned: str) -> bool:
    """Return whether two sources of Lustre mounts are the same. mount.lustre replaces names by addresses, and `tcp0` by `tcp`.

    >>> _is_same_lustre("10.0.0.1@tcp:10.0.0.2@tcp:/fs/a", "mgs1@tcp0:10.0.0.2@tcp:/fs/a/")
    True
    >>> _is_same_lustre("10.0.0.1@tcp:/fs", "10.0.0.9@tcp:/fs")
    False
    """
    (servers, _, path), (planned_servers, _, planned_path) = found.partition(":/"), planned.partition(":/")
    nids, planned_nids = re.split("([:,])", servers), re.split("([:,])", planned_servers)
    same = len(nids) == len(planned_nids) and all(map(_is_same_nid, nids, planned_nids))
    return same and PurePosixPath("/", path) == PurePosixPath("/", planned_path)


def _is_same_nid(found: str, planned: str) -> bool:
    (host, _, network), (planned_host, _, planned_network) = found.partition("@"), planned.partition("@")
    if re.sub(r"(?<=[a-z])0$", "", network) != re.sub(r"(?<=[a-z])0$", "", planned_network):
        return False
    return host == planned_host or (bool(planned_network) and not _ADDRESS.fullmatch(planned_host))


def planned_options(one: SimpleNamespace) -> set[str]:
    """Return the options that a mount of an existing file system must have, in the kernel's notation."""
    options = {"ro" if one.existing.read_only else "rw", "nosuid", "nodev", "noatime"}
    if one.kind == LUSTRE:
        return options | {"flock" if one.existing.flock else "noflock"}
    options |= {"hard", f"vers={one.existing.version}", f"sec={one.existing.sec}"}
    if one.rdma:
        return options | {"proto=rdma", "port=20049"}
    return options | ({f"nconnect={one.nconnect}"} if one.nconnect > 1 else set())  # The kernel does not show its default, one connection.


def shown_options(one: SimpleNamespace, options: frozenset[str]) -> frozenset[str]:
    """Return the options of a mount; for Lustre also `noflock`, which some releases show and others omit (lustre/llite/llite_lib.c)."""
    locks = {"flock", "localflock"}.intersection(options)
    return options | {"noflock"} if one.kind == LUSTRE and not locks else options


WRITABLE: Final = "writable"
READABLE: Final = "readable"
_NOTHING: Final = "nothing"
_SECONDS: Final = 5
"""Time limit of the queries of one file system. Chosen, as for the other mounts."""


@dataclass(frozen=True)
class UserAccess:
    """Access of a user to a folder of a file system, and the free space there."""

    folder: str
    state: str | UnreadableValue
    """WRITABLE, READABLE, or the error."""
    free_mib: int | None
    free_inodes: int | None
    """None where the file system counts no inodes."""

    @property
    def free(self) -> str:
        """Return the free space and inodes as text; the report shows them, and no check compares them."""
        space = "free space unknown" if self.free_mib is None else f"{self.free_mib} MiB free"
        return space if self.free_inodes is None else f"{space}, {self.free_inodes} inodes free"


def parse_access(text: str) -> Lines[UserAccess]:
    """Return access by mount point from lines `mount|folder|state|free blocks|block size|free inodes|inodes`."""
    if text.strip() == _NOTHING:
        return Lines({}, ())
    found = read_each_line(text, _access)
    if not found:
        raise ValueError("no existing file system is listed")
    return found


def _access(line: str) -> tuple[str, UserAccess]:
    mount, folder, state, blocks, size, free, inodes = line.split("|")
    if not (mount.startswith("/") and folder.startswith("/") and state.strip()):
        raise ValueError("no mount point")
    mib = None if not (blocks and size) else int(blocks) * int(size) // 2**20
    count = int(free) if inodes and int(inodes) else None
    return mount, UserAccess(folder, answer_of(folder, state.strip()), mib, count)


_QUERY: Final = (
    'e=$(stat -L -c %F "$1" 2>&1) || { echo "${e##*: }||||"; exit 0; }; '
    f'if ! [ -r "$1" ] || ! [ -x "$1" ]; then s="not readable"; elif [ -w "$1" ]; then s={WRITABLE}; else s={READABLE}; fi; '
    'i=$(stat -f -c "%a|%S|%d|%c" "$1" 2>/dev/null) || i="|||"; echo "$s|$i"'
)
"""Script with the rights of the user: state of the folder, then free blocks, their size, free inodes and all inodes."""


def _command(context: ProbeContext) -> str:
    """Return the queries of one user, with that user's rights: root is often mapped to another user (exports(5), root_squash).

    access(2) writes nothing; over NFS the server answers it (RFC 1813, ACCESS).
    """
    node, cluster = context.node["name"], context.declared.cluster
    mounts = [one for one in cluster["storage"] if "existing" in one and node in one["clients"]]
    user = next(iter(cluster.get("users") or ()), None)
    if not mounts or user is None:
        return f"echo {_NOTHING}"
    home = f"h=$(getent passwd {user['name']} | cut -d: -f6); cd /; "
    return home + "; ".join(_query(one, user) for one in mounts)


def _query(one: Mapping[str, Any], user: Mapping[str, Any]) -> str:
    below = one["existing"]["user_folder"]
    choose = f"m={shlex.quote(one['mount'].rstrip('/'))}; "
    choose += f'f="$m/{below}"' if below else 'case "$h/" in "$m"/*) f=$h;; *) f=$m;; esac'
    ids = f"--reuid {user['uid']} --regid {user['gid']} --init-groups"
    ask = f's=$(timeout -k 1 {scaled(_SECONDS)} setpriv {ids} sh -c {shlex.quote(_QUERY)} - "$f" 2>&1); r=$?'
    late = f'124*|137*) s="no answer within {scaled(_SECONDS)} s||||";; 0*) ;; *) echo "$s" >&2; exit $r;;'
    return f'{choose}; {ask}; case "$r" in {late} esac; echo {shlex.quote(one["mount"])}"|$f|$s"'


def _time_limit(context: ProbeContext) -> float:
    """Return the seconds in which every query has ended, also if no server responds: timeout(1) kills a second after its limit."""
    return TOOL_SECONDS + (_SECONDS + 1) * sum("existing" in one for one in context.declared.cluster["storage"])


ACCESS = Probe("existing-access", on="storage_client", command=_command, parse=parse_access, planned_timeout=_time_limit)
