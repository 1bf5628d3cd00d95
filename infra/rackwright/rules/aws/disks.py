"""Disks of target `aws`: limits of gp3 volumes, and sizes that suffice for their purpose.

Source of every limit that names none: CreateVolume of the EC2 API (botocore 1.44.5, 2026-11-20).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.storage.exports import MooseFs
from rackwright.model.targets.aws import AwsTarget
from rackwright.model.units import format_bytes
from rackwright.rules.aws.groups import target
from rackwright.rules.registry import RuleContext, Violation, rule

_GIB: Final = 2**30
"""Bytes per GiB."""
_LARGEST_GIB: Final = 65536
"""GiB of the largest gp3 volume. The ranges of operations per second and throughput below: EBS user guide, General Purpose SSD volumes."""
_IOPS: Final = range(3000, 80000 + 1)
_THROUGHPUT: Final = range(125, 2000 + 1)
"""MiB/s."""
_IOPS_PER_GIB: Final = 500
_THROUGHPUT_PER_IOPS: Final = 0.25
"""MiB/s for each operation per second. Both ratios: AWS ParallelCluster v3.11.1, ebs_validators (2024-10)."""
_IMAGE_GIB: Final = {"ubuntu": 8, "debian": 8, "rocky": 10}
"""Snapshots of the distributions' own images (their DescribeImages: BlockDeviceMappings); EC2 refuses a smaller volume."""
_ROOMY_GIB: Final = 20
"""Image, packages of the roles, logs and a crash dump: an estimate. A GPU driver with CUDA needs more."""


def _least(here: AwsTarget) -> int:
    return _IMAGE_GIB[here.os.value.split("-")[0]] * _GIB


@rule("root-size")
def root_size(case: RuleContext) -> Iterator[Violation]:
    """EC2 refuses a root volume below its image's, and above what gp3 holds."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        size = declared.root_volume.size
        if here and size < _least(here):
            cause = f"{format_bytes(size)} is less than an image of {here.os} needs"
            yield Violation(
                f"target.instances.{name}.root_volume.size", cause, f"use at least {format_bytes(_least(here))}; 100GiB is recommended"
            )
        elif size > _LARGEST_GIB * _GIB:
            cause = f"{format_bytes(size)} is more than a gp3 volume holds"
            yield Violation(f"target.instances.{name}.root_volume.size", cause, "use at most 64TiB, and a shared file system for data")


@rule("root-tight", Severity.WARNING)
def root_tight(case: RuleContext) -> Iterator[Violation]:
    """A node with a full root file system fails in many ways."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        if here and _least(here) <= declared.root_volume.size < _ROOMY_GIB * _GIB:
            cause = f"{format_bytes(declared.root_volume.size)} leaves little for packages and logs"
            yield Violation(f"target.instances.{name}.root_volume.size", cause, f"use {_ROOMY_GIB}GiB or more, or omit it for 100GiB")


@rule("root-iops")
def root_iops(case: RuleContext) -> Iterator[Violation]:
    """gp3 has a maximum of its own, and one for each GiB."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        root, path = declared.root_volume, f"target.instances.{name}.root_volume.iops"
        most = max(_IOPS.start, root.size // _GIB * _IOPS_PER_GIB)
        if root.iops not in _IOPS:
            yield Violation(
                path, f"gp3 accepts {_IOPS.start} to {_IOPS.stop - 1}", f"omit it for {_IOPS.start}, which are included in the price"
            )
        elif root.iops > most:
            cause = f"{format_bytes(root.size)} allow at most {most}: {_IOPS_PER_GIB} per GiB"
            yield Violation(path, cause, f"reduce it, or use {-(-root.iops // _IOPS_PER_GIB)}GiB")


@rule("root-throughput")
def root_throughput(case: RuleContext) -> Iterator[Violation]:
    """gp3 has a maximum of its own, and one for each operation per second."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        root, path = declared.root_volume, f"target.instances.{name}.root_volume.throughput"
        if root.throughput not in _THROUGHPUT:
            hint = f"omit it for {_THROUGHPUT.start}, which are included in the price"
            yield Violation(path, f"gp3 accepts {_THROUGHPUT.start} to {_THROUGHPUT.stop - 1} MiB/s", hint)
        elif root.throughput > root.iops * _THROUGHPUT_PER_IOPS:
            cause = f"{root.iops} operations per second allow at most {int(root.iops * _THROUGHPUT_PER_IOPS)} MiB/s"
            yield Violation(path, cause, f"reduce it, or use `iops: {int(root.throughput / _THROUGHPUT_PER_IOPS)}`")


@rule("storage-volume-size")
def storage_volume_size(case: RuleContext) -> Iterator[Violation]:
    """On target `aws` each server of a file system keeps it on one gp3 volume."""
    here = target(case)
    for name, declared in case.cluster.storage.items() if here else ():
        if isinstance(declared, MooseFs) and declared.size > _LARGEST_GIB * _GIB:
            cause = f"{format_bytes(declared.size)} for each server is more than a gp3 volume holds"
            yield Violation(f"storage.{name}.size", cause, "use at most 64TiB with more servers, or fsx-lustre")
