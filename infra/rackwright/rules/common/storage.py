"""Shared file systems: their servers and mount points."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from rackwright import catalog
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role, roles_of
from rackwright.model.storage.existing import ExistingFileSystem
from rackwright.model.storage.exports import SYSTEMS_WITH_MOOSEFS, MooseFs, Nfs, Storage
from rackwright.model.units import format_bytes
from rackwright.rules.registry import RuleContext, Violation, rule

_SMALLEST: Final = 512 * 2**20
"""A chunk server keeps 256 MiB of a disk free (mfschunkserver.cfg(5), HDD_LEAVE_SPACE_DEFAULT) and allocates 64 MiB chunks."""


_HOME: Final = PurePosixPath("/home")
"""Folder of the users' homes (rackwright.cluster.users, `home`)."""


@rule("storage-no-server")
def storage_no_server(case: RuleContext) -> Iterator[Violation]:
    """A file system without a server cannot be mounted."""
    for name in case.cluster.storage:
        declared = case.cluster.storage[name]
        if declared.served_by_nodes and not _servers(case, declared) and not _unknown(case, declared.servers):
            yield Violation(f"storage.{name}", "no node serves it", "add `storage: {count: 1}` to groups, or the role storage to a group")


def _servers(case: RuleContext, declared: Storage) -> list[DeclaredNode]:
    if not declared.served_by_nodes:
        return []
    if declared.servers:
        return [member for member in case.members if member.group in declared.servers]
    return case.with_role(Role.STORAGE)


def _unknown(case: RuleContext, groups: tuple[str, ...]) -> list[str]:
    return [group for group in groups if group not in case.cluster.groups]


@rule("storage-group-unknown")
def storage_group_unknown(case: RuleContext) -> Iterator[Violation]:
    """Servers and clients are selected by group."""
    for name, declared in case.cluster.storage.items():
        for key, groups in (("servers", declared.servers), ("clients", declared.clients)):
            for group in _unknown(case, groups):
                yield Violation(f"storage.{name}.{key}", f"there is no group `{group}`", did_you_mean(group, case.cluster.groups))


@rule("storage-server-role")
def storage_server_role(case: RuleContext) -> Iterator[Violation]:
    """Server daemons are installed on nodes with the role storage."""
    for name, declared in case.cluster.storage.items():
        for group in declared.servers:
            known = case.cluster.groups.get(group)
            if known is not None and Role.STORAGE not in roles_of(group, known):
                yield Violation(f"storage.{name}.servers", f"group {group} does not have the role storage", "add the role to the group")


@rule("storage-server-conflict")
def storage_server_conflict(case: RuleContext) -> Iterator[Violation]:
    """A node runs one metadata server and one chunk server, for one file system. NFS exports as many folders as there are."""
    serving: dict[str, str] = {}
    for name, declared in case.cluster.storage.items():
        for member in _servers(case, declared) if isinstance(declared, MooseFs) else ():
            first = serving.setdefault(member.name, name)
            if first != name:
                yield Violation(f"storage.{name}", f"{member.name} already serves {first}", "set separate `servers` for each file system")
                break


@rule("moosefs-os")
def moosefs_os(case: RuleContext) -> Iterator[Violation]:
    """Debian 13 is the first distribution that packages MooseFS; `up` would stop at the first node of another one."""
    for name, declared in case.cluster.storage.items():
        if not isinstance(declared, MooseFs):
            continue
        clients = [member for member in case.members if not declared.clients or member.group in declared.clients]
        systems = {case.cluster.target.os_of(member.name): member.name for member in reversed([*_servers(case, declared), *clients])}
        for os, node in systems.items():
            if not SYSTEMS_WITH_MOOSEFS.match(os):
                hint = "use `os: debian-13` there, or `kind: nfs`; the groups of `clients` are the only ones that mount it"
                yield Violation(f"storage.{name}.kind", f"{node} has {os}, which has no MooseFS packages", hint)


@rule("nfs-servers")
def nfs_servers(case: RuleContext) -> Iterator[Violation]:
    """The folder lies on one node; two servers would be two file systems under one name."""
    for name, declared in case.cluster.storage.items():
        servers = [member.name for member in _servers(case, declared)] if isinstance(declared, Nfs) else []
        if len(servers) > 1:
            cause = f"{len(servers)} nodes would serve it: {', '.join(servers[:4])}{', …' if len(servers) > 4 else ''}"
            yield Violation(f"storage.{name}.servers", cause, "set `servers` to one group with one node, or use kind moosefs")


@rule("nfs-needs-own-kernel")
def nfs_needs_own_kernel(case: RuleContext) -> Iterator[Violation]:
    """NFS is served and mounted by the kernel, and a container has none of its own."""
    for name, declared in case.cluster.storage.items():
        if isinstance(declared, Nfs) and not case.cluster.target.manage_kernel:
            cause = "containers cannot serve or mount NFS, which runs in the kernel, and they share the machine's kernel"
            yield Violation(f"storage.{name}.kind", cause, "use kind moosefs; nfs needs nodes with their own kernel")


@rule("nfs-rdma-on-vm")
def nfs_rdma_on_vm(case: RuleContext) -> Iterator[Violation]:
    """NFS uses the network of the nodes' addresses. The RDMA devices of virtual machines are on the rails."""
    for name, declared in case.cluster.storage.items():
        if isinstance(declared, Nfs) and declared.rdma and case.cluster.target.kind == "vm":
            cause = "the network of the nodes' addresses has no RDMA device on target vm"
            yield Violation(f"storage.{name}.rdma", cause, "remove it; NFS then uses TCP")


@rule("nfs-home")
def nfs_home(case: RuleContext) -> Iterator[Violation]:
    """Every node creates home directories as root, which NFS maps to `nobody`."""
    for name, declared in case.cluster.storage.items():
        if isinstance(declared, Nfs) and _mount(declared) == _HOME:
            cause = f"NFS maps root to `nobody` (root_squash), so root cannot create home directories in {declared.mount}"
            yield Violation(f"storage.{name}.mount", cause, f"use another path, like /mnt/{name}, and keep home directories on the nodes")


@rule("storage-node-without-filesystem", Severity.WARNING)
def storage_node_without_filesystem(case: RuleContext) -> Iterator[Violation]:
    """A storage node without a file system is unused, or a file system is missing."""
    if case.with_role(Role.STORAGE) and not case.cluster.storage:
        yield Violation("storage", "nodes have the role storage, but no file system is declared", "add one, or remove the role")


@rule("duplicate-mount")
def duplicate_mount(case: RuleContext) -> Iterator[Violation]:
    """The second mount hides the first."""
    first: dict[PurePosixPath, str] = {}
    for name, declared in case.cluster.storage.items():
        other = first.setdefault(_mount(declared), name)
        if other != name:
            yield Violation(f"storage.{name}.mount", f"{declared.mount} is also the mount point of {other}", "use another path")


@rule("mount-nested")
def mount_nested(case: RuleContext) -> Iterator[Violation]:
    """A nested file system hangs with the outer one, and needs a mount order that is not declared."""
    for name, inner in case.cluster.storage.items():
        for other, outer in case.cluster.storage.items():
            if _mount(outer) in _mount(inner).parents:
                yield Violation(f"storage.{name}.mount", f"{inner.mount} is inside {outer.mount} of {other}", "mount them side by side")


@rule("mount-reserved")
def mount_reserved(case: RuleContext) -> Iterator[Violation]:
    """Mounting over the system's own folders breaks the node."""
    for name, declared in case.cluster.storage.items():
        mount = _mount(declared)
        folders = catalog.system_folders()
        if str(mount) in folders or any(folders.get(str(parent), False) for parent in mount.parents):
            yield Violation(
                f"storage.{name}.mount", f"{declared.mount} belongs to the operating system", f"use another path, like /mnt/{name}"
            )


def _mount(declared: Storage) -> PurePosixPath:
    """Return the path as the kernel resolves it: without doubled and trailing slashes, `.` and `..`."""
    parts: list[str] = []
    for part in declared.mount.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return PurePosixPath("/", *parts)


@rule("storage-size")
def storage_size(case: RuleContext) -> Iterator[Violation]:
    """A file system that is full from the start cannot store a file."""
    for name, declared in case.cluster.storage.items():
        if not isinstance(declared, ExistingFileSystem) and declared.size < _SMALLEST:
            cause = f"{format_bytes(declared.size)} is too small to write to"
            yield Violation(f"storage.{name}.size", cause, f"use at least {format_bytes(_SMALLEST)}")


@rule("storage-mode", Severity.WARNING)
def storage_mode(case: RuleContext) -> Iterator[Violation]:
    """World-writable without the sticky bit lets every user delete the files of others."""
    for name, declared in case.cluster.storage.items():
        if isinstance(declared, ExistingFileSystem):
            continue
        mode = int(declared.mode, 8)
        if mode & 0o002 and not mode & 0o1000:
            yield Violation(f"storage.{name}.mode", f"mode {declared.mode} lets users delete each other's files", 'use "1777"')
