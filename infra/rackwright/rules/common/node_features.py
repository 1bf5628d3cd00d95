"""Additional software and settings of nodes: on which nodes, and their requirements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rackwright import catalog
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role
from rackwright.model.node.containers import ContainerRuntime
from rackwright.model.node.pytorch import PytorchSource
from rackwright.model.storage.scratch import RaidLevel
from rackwright.rules.registry import RuleContext, Violation, rule


@rule("feature-group-unknown")
def feature_group_unknown(case: RuleContext) -> Iterator[Violation]:
    """Nodes are selected by group."""
    for part in ("tuning", "scratch", "rdma"):
        declared = getattr(case.cluster, part)
        for group in declared.groups if declared else ():
            if group not in case.cluster.groups:
                yield Violation(f"{part}.groups", f"there is no group `{group}`", did_you_mean(group, case.cluster.groups))


@rule("feature-needs-own-kernel", Severity.WARNING)
def feature_needs_own_kernel(case: RuleContext) -> Iterator[Violation]:
    """A container shares the machine's kernel, and thereby its settings, disks and network cards."""
    for part in ("tuning", "scratch", "rdma"):
        if getattr(case.cluster, part) and not case.cluster.target.manage_kernel:
            yield Violation(part, "has no effect: containers use the machine's kernel", "configure the machine instead, or remove it")


@rule("scratch-empty-disks")
def scratch_empty_disks(case: RuleContext) -> Iterator[Violation]:
    """Writing to disks requires a second, explicit setting, so that a wrong device name alone does no harm."""
    if case.cluster.scratch and not case.cluster.scratch.format_empty_disks:
        hint = (
            "add `format_empty_disks: true` after verifying that these are the right disks; disks that contain data are refused in any case"
        )
        yield Violation("scratch.format_empty_disks", "writing to the disks is not permitted", hint)


@rule("scratch-disks")
def scratch_disks(case: RuleContext) -> Iterator[Violation]:
    """A mirror needs two disks, and a disk belongs to one array."""
    scratch = case.cluster.scratch
    if scratch is None:
        return
    if scratch.raid_level is RaidLevel.MIRRORED and len(scratch.devices) < 2:
        yield Violation("scratch.devices", "a mirror needs at least two disks", "list two disks, or use `raid_level: 0`")
    if len({PurePosixPath(device) for device in scratch.devices}) < len(scratch.devices):
        yield Violation("scratch.devices", "a disk is listed twice", "list each disk once")


@rule("scratch-mount")
def scratch_mount(case: RuleContext) -> Iterator[Violation]:
    """The second mount hides the first."""
    if case.cluster.scratch is None:
        return
    mount, folders = PurePosixPath(case.cluster.scratch.mount), catalog.system_folders()
    for name, shared in case.cluster.storage.items():
        other = PurePosixPath(shared.mount)
        if mount == other or mount in other.parents or other in mount.parents:
            yield Violation("scratch.mount", f"{mount} and {other} of {name} are nested", "use another path, like /scratch")
    if str(mount) in folders or any(folders.get(str(parent), False) for parent in mount.parents):
        yield Violation("scratch.mount", f"{mount} belongs to the operating system", "use another path, like /scratch")


@rule("efa-target")
def efa_target(case: RuleContext) -> Iterator[Violation]:
    """EFA devices exist on AWS only."""
    if case.cluster.rdma and case.cluster.rdma.efa and case.cluster.target.kind != "aws":
        yield Violation("rdma.efa", "only AWS instances have EFA devices", "remove it")


@rule("roce-devices")
def roce_devices(case: RuleContext) -> Iterator[Violation]:
    """Without device names nothing would be configured, and no message would report it."""
    rdma, fabric = case.cluster.rdma, getattr(case.cluster, "fabric", None)
    if rdma and rdma.roce and not rdma.roce.devices and fabric is None:
        yield Violation(
            "rdma.roce.devices",
            "no device is listed, and no fabric is declared from which to derive the devices",
            "list the devices, like [mlx5_0, mlx5_1]",
        )
    if rdma and rdma.virtual_functions and not (rdma.roce and rdma.roce.devices) and fabric is None:
        yield Violation(
            "rdma.virtual_functions", "no device is listed for the virtual functions", "list the devices in `roce: {devices: [mlx5_0]}`"
        )


@rule("doca-efa")
def doca_efa(case: RuleContext) -> Iterator[Violation]:
    """Both install their own rdma-core, and the second installation breaks the first."""
    if case.cluster.rdma and case.cluster.rdma.doca and case.cluster.rdma.efa:
        yield Violation(
            "rdma.doca",
            "DOCA-Host and AWS's EFA software replace each other's libraries",
            "remove the one whose card the nodes do not have",
        )


@rule("docker-root", Severity.WARNING)
def docker_root(case: RuleContext) -> Iterator[Violation]:
    """A user with access to Docker's daemon is root on the node and bypasses Slurm's limits."""
    if case.cluster.software and ContainerRuntime.DOCKER in case.cluster.software.containers:
        cause = "members of `docker` are root on the node and bypass Slurm's cgroups; no users are added"
        yield Violation("software.containers", cause, "use podman, apptainer or enroot, which run as the user, inside the job")


@rule("pytorch-storage")
def pytorch_storage(case: RuleContext) -> Iterator[Violation]:
    """One node installs PyTorch for all clients of the file system."""
    wanted = case.cluster.software.pytorch if case.cluster.software else None
    if wanted is None or wanted.source is PytorchSource.DEBIAN:
        return
    if wanted.storage is not None and wanted.storage not in case.cluster.storage:
        hint = did_you_mean(wanted.storage, case.cluster.storage)
        yield Violation("software.pytorch.storage", f"there is no file system `{wanted.storage}`", hint)
    elif not case.cluster.storage:
        yield Violation("software.pytorch", "there is no shared file system on which to install it", "declare one under `storage`")
    elif not case.with_role(Role.WORKER):
        yield Violation("software.pytorch", "no worker is declared to install it", "declare a group with the role worker")
    if wanted.index and wanted.wheelhouse:
        yield Violation("software.pytorch.index", "the index is not used with a wheelhouse", "remove one of the two")


@rule("pytorch-source")
def pytorch_source(case: RuleContext) -> Iterator[Violation]:
    """Wheels need a version; Debian has one package, for CPUs, which FSDP2 works with from Debian 13 on."""
    wanted = case.cluster.software.pytorch if case.cluster.software else None
    if wanted is None:
        return
    if wanted.source is PytorchSource.WHEELS:
        if wanted.version is None:
            yield Violation("software.pytorch.version", "wheels need a version", 'add one, for example "2.8.0", or `source: debian`')
        return
    for key in ("version", "storage", "index", "wheelhouse", "packages"):
        if getattr(wanted, key):
            yield Violation(f"software.pytorch.{key}", "has no effect with `source: debian`", "remove it")
    if case.cluster.target.os != "debian-13":
        hint = "use `os: debian-13`, or wheels: remove `source` and add `version`"
        yield Violation("software.pytorch.source", f"debian is the package of debian-13 (found os {case.cluster.target.os})", hint)
    for name, group in case.cluster.groups.items():
        if group.gpus and "gpu" not in case.cluster.target.simulated:
            yield Violation("software.pytorch.source", f"Debian's package cannot use the GPUs of group `{name}`", "install wheels")


@rule("ldap-encryption")
def ldap_encryption(case: RuleContext) -> Iterator[Violation]:
    """An attacker on an unencrypted connection can grant logins and read the bind password."""
    ldap = case.cluster.directory.ldap if case.cluster.directory else None
    for uri in ldap.uri if ldap else ():
        if ldap and uri.startswith("ldap:") and not ldap.start_tls:
            yield Violation("directory.ldap.uri", f"{uri} is not encrypted", "use ldaps://, or add `start_tls: true`")
        elif ldap and uri.startswith("ldaps:") and ldap.start_tls:
            yield Violation("directory.ldap.start_tls", f"{uri} is already encrypted", "remove start_tls, or use ldap://")
