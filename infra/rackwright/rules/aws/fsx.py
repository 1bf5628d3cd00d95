"""FSx for Lustre: valid combinations of values, regions and clients. The numbers are in the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog.fsx import DeploymentType, StorageType, capacities, metadata_iops, storage_types, takes_efa, throughputs
from rackwright.catalog.regions import regions
from rackwright.model.finding import Severity
from rackwright.model.storage.fsx import FsxLustre, Medium
from rackwright.model.units import format_bytes
from rackwright.rules.aws.groups import fleets, target
from rackwright.rules.registry import RuleContext, Violation, rule

_GIB = 2**30
"""Bytes per GiB."""


def lustres(case: RuleContext) -> Iterator[tuple[str, FsxLustre]]:
    """Yield every FSx file system with its path."""
    for name, declared in case.cluster.storage.items():
        if isinstance(declared, FsxLustre):
            yield f"storage.{name}", declared


def deployment_of(declared: FsxLustre) -> DeploymentType:
    """Return the deployment type in the catalogue's terms."""
    return DeploymentType(declared.deployment_type.value)


def _medium(declared: FsxLustre) -> StorageType:
    return StorageType(declared.storage_type.value)


@rule("fsx-target")
def fsx_target(case: RuleContext) -> Iterator[Violation]:
    """FSx is a service of AWS, in the network of a stack on AWS."""
    for path, _ in lustres(case) if target(case) is None else ():
        yield Violation(f"{path}.kind", f"FSx is not available on target {case.cluster.target.kind}", "use `kind: moosefs`, or target aws")


@rule("fsx-region")
def fsx_region(case: RuleContext) -> Iterator[Violation]:
    """Not every region has FSx for Lustre."""
    here = target(case)
    region = regions().get(here.region) if here else None
    for path, _ in lustres(case) if region else ():
        if region is not None and not region.fsx_lustre:
            yield Violation(f"{path}.kind", f"FSx for Lustre is not offered in {region.name}", "use `kind: nfs`, or another region")


@rule("fsx-persistent-2-region")
def fsx_persistent_2_region(case: RuleContext) -> Iterator[Violation]:
    """Several regions have only the first generation."""
    here = target(case)
    region = regions().get(here.region) if here else None
    for path, declared in lustres(case) if region else ():
        if region is not None and region.fsx_lustre and not region.fsx_persistent_2 and deployment_of(declared).takes_metadata:
            cause = f"PERSISTENT_2 is not offered in {region.name} (catalogue of {region.date})"
            yield Violation(f"{path}.deployment_type", cause, "use PERSISTENT_1 with `throughput: 200`, or another region")


@rule("fsx-medium")
def fsx_medium(case: RuleContext) -> Iterator[Violation]:
    """HDDs are available with PERSISTENT_1 only."""
    for path, declared in lustres(case):
        if _medium(declared) not in storage_types(deployment_of(declared)):
            yield Violation(
                f"{path}.storage_type",
                f"{declared.deployment_type} is not available on {declared.storage_type}",
                "use SSD, or PERSISTENT_1",
            )


@rule("fsx-throughput")
def fsx_throughput(case: RuleContext) -> Iterator[Violation]:
    """Persistent file systems require one of a few values; scratch file systems accept none."""
    for path, declared in lustres(case):
        allowed = throughputs(deployment_of(declared), _medium(declared))
        listed = ", ".join(str(each) for each in allowed)
        if _medium(declared) not in storage_types(deployment_of(declared)) or (declared.throughput or None) in (allowed or (None,)):
            continue
        if not allowed:
            yield Violation(f"{path}.throughput", f"{declared.deployment_type} has no selectable throughput", "remove it")
        elif declared.throughput is None:
            yield Violation(
                f"{path}.throughput", f"is missing: {declared.deployment_type} requires it", f"set one of these MB/s per TiB: {listed}"
            )
        else:
            near = min(allowed, key=lambda each, asked=declared.throughput: abs(each - asked))  # type: ignore[misc]
            cause = f"{declared.deployment_type} on {declared.storage_type} does not offer {declared.throughput}"
            yield Violation(f"{path}.throughput", cause, f"nearest: {near}; MB/s per TiB: {listed}")


@rule("fsx-capacity")
def fsx_capacity(case: RuleContext) -> Iterator[Violation]:
    """Capacity has steps, which depend on deployment, medium, throughput and EFA."""
    for path, declared in lustres(case):
        steps = capacities(deployment_of(declared), _medium(declared), declared.throughput, efa=declared.efa)
        gib = declared.size // _GIB
        if steps is not None and (declared.size % _GIB or gib not in steps):
            with_efa = " with EFA" if declared.efa else ""
            cause = f"{format_bytes(declared.size)} is not a size of {declared.deployment_type} on {declared.storage_type}{with_efa}"
            yield Violation(f"{path}.size", cause, f"nearest: {steps.nearest(gib)}GiB; GiB: {steps}")


@rule("fsx-metadata")
def fsx_metadata(case: RuleContext) -> Iterator[Violation]:
    """Only PERSISTENT_2 has a choice of metadata IOPS, and only of some values."""
    for path, declared in lustres(case):
        declared_iops, steps = declared.metadata_iops, metadata_iops()
        if declared_iops is None:
            continue
        if not deployment_of(declared).takes_metadata:
            yield Violation(
                f"{path}.metadata_iops", f"{declared.deployment_type} has no selectable metadata IOPS", "remove it, or use PERSISTENT_2"
            )
        elif declared_iops not in steps:
            yield Violation(f"{path}.metadata_iops", f"{declared_iops} is not offered", f"nearest: {steps.nearest(declared_iops)}; {steps}")


@rule("fsx-drive-cache")
def fsx_drive_cache(case: RuleContext) -> Iterator[Violation]:
    """A drive cache has no effect with SSDs."""
    for path, declared in lustres(case):
        if declared.drive_cache and declared.storage_type is not Medium.HDD:
            yield Violation(
                f"{path}.drive_cache", "is a cache for HDDs, but the storage type is SSD", "remove it, or use `storage_type: HDD`"
            )


@rule("fsx-efa")
def fsx_efa(case: RuleContext) -> Iterator[Violation]:
    """Servers with EFA are available with PERSISTENT_2 only."""
    for path, declared in lustres(case):
        if declared.efa and not takes_efa(deployment_of(declared), metadata=True):
            yield Violation(f"{path}.efa", f"{declared.deployment_type} is not reached over EFA", "remove it, or use PERSISTENT_2")


@rule("fsx-efa-clients", Severity.WARNING)
def fsx_efa_clients(case: RuleContext) -> Iterator[Violation]:
    """Clients without EFA use TCP."""
    with_efa = {fleet.name for fleet in fleets(case) if fleet.declared.efa}
    for path, declared in lustres(case) if target(case) else ():
        if declared.efa and not with_efa.intersection(declared.clients or case.cluster.groups):
            yield Violation(f"{path}.efa", "none of its clients has EFA", "add `efa: true` to the workers' instances, or remove it here")


@rule("fsx-backups")
def fsx_backups(case: RuleContext) -> Iterator[Violation]:
    """Only persistent file systems without a data repository are backed up (FSx API: CreateBackup, botocore 1.44.5, 2026-11-20)."""
    for path, declared in lustres(case):
        if declared.backups and not deployment_of(declared).persistent:
            yield Violation(f"{path}.backups", f"{declared.deployment_type} cannot be backed up", "remove it, or use PERSISTENT_2")
        elif declared.backups and declared.data_repositories:
            cause = "AWS does not back up a file system that is linked to a bucket"
            yield Violation(
                f"{path}.backups", cause, "remove it and add `exports: [NEW, CHANGED]` to the repositories, or remove the repositories"
            )


@rule("fsx-scratch-home", Severity.WARNING)
def fsx_scratch_home(case: RuleContext) -> Iterator[Violation]:
    """A scratch file system loses the data of a server that fails (FSx for Lustre user guide: Deployment options)."""
    for path, declared in lustres(case):
        if not deployment_of(declared).persistent and declared.mount.rstrip("/") == "/home":
            yield Violation(
                f"{path}.deployment_type",
                f"{declared.deployment_type} loses data when a server fails, and it holds /home",
                "use PERSISTENT_2",
            )


@rule("fsx-client-os")
def fsx_client_os(case: RuleContext) -> Iterator[Violation]:
    """AWS builds clients for Ubuntu and relatives of Rocky, not for Debian (FSx for Lustre user guide: Installing the Lustre client)."""
    here = target(case)
    for path, _ in lustres(case) if here else ():
        if here is not None and here.os.value.startswith("debian"):
            yield Violation(f"{path}.kind", f"AWS provides no Lustre client for {here.os}", "use `os: ubuntu-24.04`, or `kind: nfs`")
