"""What nodes carry beside the cluster's own services: on which nodes, and what it cannot do without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rackwright import catalog
from rackwright.model.containers import ContainerRuntime
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role
from rackwright.model.scratch import RaidLevel
from rackwright.rules.registry import Case, Complaint, rule


@rule("part-group-unknown")
def part_group_unknown(case: Case) -> Iterator[Complaint]:
    """Nodes are named by group."""
    for part in ("tuning", "scratch", "rdma"):
        declared = getattr(case.cluster, part)
        for group in declared.groups if declared else ():
            if group not in case.cluster.groups:
                yield Complaint(f"{part}.groups", f"there is no group `{group}`", did_you_mean(group, case.cluster.groups))


@rule("part-kernel", Severity.WARNING)
def part_kernel(case: Case) -> Iterator[Complaint]:
    """A container's kernel is the machine's, and so are its settings, disks and network cards."""
    for part in ("tuning", "scratch", "rdma"):
        if getattr(case.cluster, part) and not case.cluster.target.owns_kernel:
            yield Complaint(part, "nothing is done here: containers have the machine's kernel", "set it up on the machine, or leave it out")


@rule("scratch-empty-disks")
def scratch_empty_disks(case: Case) -> Iterator[Complaint]:
    """Whoever names a wrong disk should have to say twice that it may be written to."""
    if case.cluster.scratch and not case.cluster.scratch.use_empty_disks:
        hint = (
            "add `use_empty_disks: true` once the disks are known to be the right ones; those that hold anything are refused all the same"
        )
        yield Complaint("scratch.use_empty_disks", "nothing may be written to the disks", hint)


@rule("scratch-disks")
def scratch_disks(case: Case) -> Iterator[Complaint]:
    """A mirror of one disk mirrors nothing, and a disk is in one place."""
    scratch = case.cluster.scratch
    if scratch is None:
        return
    if scratch.level is RaidLevel.MIRRORED and len(scratch.devices) < 2:
        yield Complaint("scratch.devices", "one disk mirrors nothing", "name two disks, or use `level: 0`")
    if len({PurePosixPath(device) for device in scratch.devices}) < len(scratch.devices):
        yield Complaint("scratch.devices", "a disk is named twice", "name each disk once")


@rule("scratch-mount")
def scratch_mount(case: Case) -> Iterator[Complaint]:
    """The second mount hides the first."""
    if case.cluster.scratch is None:
        return
    mount, folders = PurePosixPath(case.cluster.scratch.mount), catalog.system_folders()
    for name, shared in case.cluster.storage.items():
        other = PurePosixPath(shared.mount)
        if mount == other or mount in other.parents or other in mount.parents:
            yield Complaint("scratch.mount", f"{mount} and {other} of {name} lie in one another", "choose another place, like /scratch")
    if str(mount) in folders or any(folders.get(str(parent), False) for parent in mount.parents):
        yield Complaint("scratch.mount", f"{mount} belongs to the operating system", "use /scratch, for instance")


@rule("efa-target")
def efa_target(case: Case) -> Iterator[Complaint]:
    """Nobody but AWS has the devices."""
    if case.cluster.rdma and case.cluster.rdma.efa and case.cluster.target.kind != "aws":
        yield Complaint("rdma.efa", "only instances of AWS have EFA devices", "leave it out")


@rule("roce-devices")
def roce_devices(case: Case) -> Iterator[Complaint]:
    """Without device names nothing would be set, and nobody would be told."""
    rdma, fabric = case.cluster.rdma, getattr(case.cluster, "fabric", None)
    if rdma and rdma.roce and not rdma.roce.devices and fabric is None:
        yield Complaint("rdma.roce.devices", "no device is named, and no fabric is declared that would", "name them, like [mlx5_0, mlx5_1]")
    if rdma and rdma.virtual_functions and not (rdma.roce and rdma.roce.devices) and fabric is None:
        yield Complaint("rdma.virtual_functions", "no device is named that they are made on", "name them under `roce: {devices: [mlx5_0]}`")


@rule("doca-efa")
def doca_efa(case: Case) -> Iterator[Complaint]:
    """Both bring an rdma-core of their own, and the second installation breaks the first."""
    if case.cluster.rdma and case.cluster.rdma.doca and case.cluster.rdma.efa:
        yield Complaint(
            "rdma.doca", "DOCA-Host and AWS's EFA software replace each other's libraries", "leave out the one that has no card here"
        )


@rule("docker-root", Severity.WARNING)
def docker_root(case: Case) -> Iterator[Complaint]:
    """Whoever may talk to Docker's daemon is root on the node, and past Slurm's limits."""
    if case.cluster.software and ContainerRuntime.DOCKER in case.cluster.software.containers:
        cause = "who may use Docker is root on the node, outside Slurm's cgroups; nobody is put into its group"
        yield Complaint("software.containers", cause, "podman, apptainer or enroot run as the user, inside the job")


@rule("pytorch-storage")
def pytorch_storage(case: Case) -> Iterator[Complaint]:
    """It is installed once, by one node, for all who mount the file system."""
    wanted = case.cluster.software.pytorch if case.cluster.software else None
    if wanted is None:
        return
    if wanted.storage is not None and wanted.storage not in case.cluster.storage:
        hint = did_you_mean(wanted.storage, case.cluster.storage)
        yield Complaint("software.pytorch.storage", f"there is no file system `{wanted.storage}`", hint)
    elif not case.cluster.storage:
        yield Complaint("software.pytorch", "there is no shared file system to install it on", "declare one under `storage`")
    elif not case.having(Role.WORKER):
        yield Complaint("software.pytorch", "no node runs jobs, and none would install it", "declare a group with the role worker")
    if wanted.index and wanted.wheelhouse:
        yield Complaint("software.pytorch.index", "with a wheelhouse no index is asked", "leave one of the two out")


@rule("ldap-encryption")
def ldap_encryption(case: Case) -> Iterator[Complaint]:
    """Over a plain connection whoever is in between chooses who may log in, and reads the password of who asks."""
    ldap = case.cluster.users_from.ldap if case.cluster.users_from else None
    for uri in ldap.uri if ldap else ():
        if ldap and uri.startswith("ldap:") and not ldap.start_tls:
            yield Complaint("users_from.ldap.uri", f"{uri} is not encrypted", "use ldaps://, or add `start_tls: true`")
        elif ldap and uri.startswith("ldaps:") and ldap.start_tls:
            yield Complaint("users_from.ldap.start_tls", f"{uri} is encrypted from its start", "leave start_tls out, or use ldap://")
