"""Existing file systems: what mounts them, and what would write to their servers as root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.node.pytorch import PytorchSource
from rackwright.model.storage.existing import ExistingFileSystem, ExistingLustre, ExistingNfs
from rackwright.model.storage.sources import is_ipv6
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_HOME: Final = PurePosixPath("/home")
"""Folder of the users' homes (rackwright.cluster.users, `home`)."""


@rule("existing-storage-needs-own-kernel")
def existing_storage_needs_own_kernel(case: RuleContext) -> Iterator[Violation]:
    """The clients of NFS and Lustre are parts of the kernel, and a container has none of its own."""
    for name, declared in _existing(case):
        if not case.cluster.target.manage_kernel:
            cause = f"containers cannot mount {_protocol(declared)}, whose client runs in the kernel, and they share the machine's kernel"
            hint = "use kind moosefs; existing file systems need nodes with their own kernel (targets hosts, vm and aws)"
            yield Violation(f"storage.{name}.kind", cause, hint)


@rule("existing-nfs-rdma")
def existing_nfs_rdma(case: RuleContext) -> Iterator[Violation]:
    """Virtual machines have RDMA devices on the rails only, and the option `rdma` of nfs(5) is the protocol for IPv4."""
    for name, declared in _existing(case):
        if not isinstance(declared, ExistingNfs) or not declared.rdma:
            continue
        if case.cluster.target.kind == "vm":
            cause = "the network of the nodes' addresses has no RDMA device on target vm"
            yield Violation(f"storage.{name}.rdma", cause, "remove it; NFS then uses TCP")
        elif is_ipv6(declared.source):
            yield Violation(
                f"storage.{name}.rdma", "RDMA is not supported with an IPv6 address", "name the server, or use its IPv4 address"
            )


@rule("existing-nfs-connections")
def existing_nfs_connections(case: RuleContext) -> Iterator[Violation]:
    """A second mount of a server with the same version and protocol joins the connections of the first one (nfs(5), nconnect)."""
    first: dict[tuple[str, str, bool], tuple[str, int]] = {}
    for name, declared in _existing(case):
        if isinstance(declared, ExistingNfs) and not declared.rdma:
            server = declared.source.rpartition(":/")[0].lower()
            other, connections = first.setdefault((server, declared.version, declared.rdma), (name, declared.nconnect))
            if connections != declared.nconnect:
                cause = f"{declared.nconnect} connections, but {other} mounts {server} with {connections}, which both mounts share"
                yield Violation(f"storage.{name}.nconnect", cause, f"use the same value as storage.{other}")


@rule("existing-home-creation")
def existing_home_creation(case: RuleContext) -> Iterator[Violation]:
    """Nothing is created on an existing server. root, which would create the directories, is often mapped to another user there."""
    for name, declared in _existing(case):
        if _is_at_home(declared) and case.cluster.directory is not None and case.cluster.directory.ldap.create_homes:
            cause = f"nodes would create home directories on {declared.source}, which {name} mounts at {declared.mount}"
            yield Violation("directory.ldap.create_homes", cause, "set it to false, and create home directories on the server")


@rule("existing-home-login", Severity.WARNING)
def existing_home_login(case: RuleContext) -> Iterator[Violation]:
    """A mount hides the folders under it, and with them the SSH keys of the user who logs in to configure the nodes."""
    users = sorted(_login_users(case) - {"root"})
    for name, declared in _existing(case):
        if users and _is_at_home(declared):
            cause = f"the mount hides {_HOME / users[0]} of the nodes: if the login user's keys are there, no login is possible after `up`"
            hint = f"log in as root, create {users[0]}/.ssh/authorized_keys on the server first, or use another path, like /mnt/{name}"
            yield Violation(f"storage.{name}.mount", cause, hint)


@rule("existing-storage-pytorch")
def existing_storage_pytorch(case: RuleContext) -> Iterator[Violation]:
    """PyTorch is installed by root, and nothing is created on an existing server."""
    wanted = case.cluster.software.pytorch if case.cluster.software else None
    if wanted is None or wanted.source is PytorchSource.DEBIAN:
        return
    name = wanted.storage or next(iter(case.cluster.storage), None)
    declared = case.cluster.storage.get(name) if name else None
    if isinstance(declared, ExistingFileSystem):
        cause = f"{name} is an existing file system, on which rackwright creates nothing"
        yield Violation("software.pytorch.storage", cause, "name a file system of another kind, or install PyTorch on the server yourself")


@rule("existing-storage-claims")
def existing_storage_claims(case: RuleContext) -> Iterator[Violation]:
    """Folders of claims are created by root on the first file system, and nothing is created on an existing server."""
    first, kubernetes = next(iter(case.cluster.storage.items()), None), case.kubernetes
    if first is None or kubernetes is None or not isinstance(first[1], ExistingFileSystem):
        return
    for name, namespace in kubernetes.namespaces.items():
        if namespace.shared_volume is not None:
            cause = f"claims lie on the first file system, and {first[0]} is an existing one, on which rackwright creates nothing"
            hint = "declare a file system of another kind before it, or create PersistentVolumes for the existing one yourself"
            yield Violation(f"scheduler.namespaces.{name}.shared_volume", cause, hint)


def _existing(case: RuleContext) -> Iterator[tuple[str, ExistingNfs | ExistingLustre]]:
    for name, declared in case.cluster.storage.items():
        if isinstance(declared, ExistingNfs | ExistingLustre):
            yield name, declared


def _protocol(declared: ExistingFileSystem) -> str:
    return "NFS" if isinstance(declared, ExistingNfs) else "Lustre"


def _is_at_home(declared: ExistingFileSystem) -> bool:
    return PurePosixPath(declared.mount) == _HOME


def _login_users(case: RuleContext) -> set[str]:
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        return {machine.user or target.user for machine in target.machine_by_node.values()} or {target.user}
    return {target.bootstrap_user}
