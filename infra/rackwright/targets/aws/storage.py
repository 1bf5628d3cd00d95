"""File systems that AWS runs, and disks that outlive their instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from rackwright.derive.cost import SMALL_DISK_GIB
from rackwright.model.storage.fsx import DataRepository, Deployment, FsxLustre, Medium
from rackwright.model.tier import Tier
from rackwright.plan.schema import Volume
from rackwright.targets.aws.account import StackContext
from rackwright.targets.aws.network import NetworkResources
from rackwright.targets.aws.nodes import NodeInstance

_DEVICE: Final = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"
"""Prefix of an EBS volume's udev name on Nitro; the id without the hyphen follows (EC2 user guide: Device names and NVMe volumes)."""


@dataclass(frozen=True)
class SharedStorage:
    """A file system that no node serves."""

    made: aws.fsx.LustreFileSystem
    source: pulumi.Output[str]
    """Mount source of the clients."""


def file_systems(site: StackContext, wires: NetworkResources) -> dict[str, SharedStorage]:
    """Create every FSx file system of the plan; return them by name."""
    return {planned.name: _file_system(site, wires, planned.name, planned.fsx) for planned in site.plan.storage if planned.fsx is not None}


def _file_system(site: StackContext, wires: NetworkResources, name: str, declared: FsxLustre) -> SharedStorage:
    assert wires.storage is not None
    persistent = declared.deployment_type is not Deployment.SCRATCH_2
    iops = declared.metadata_iops
    metadata = aws.fsx.LustreFileSystemMetadataConfigurationArgs(mode="USER_PROVISIONED" if iops else "AUTOMATIC", iops=iops)
    made = aws.fsx.LustreFileSystem(
        name,
        subnet_ids=wires.subnets[Tier.SERVICE].id,
        security_group_ids=[wires.storage.id],
        storage_capacity=declared.size // 2**30,
        storage_type=declared.storage_type.value,
        deployment_type=declared.deployment_type.value,
        file_system_type_version="2.15",
        per_unit_storage_throughput=declared.throughput if persistent else None,
        metadata_configuration=metadata if declared.deployment_type is Deployment.PERSISTENT_2 else None,
        drive_cache_type=("READ" if declared.drive_cache else "NONE") if declared.storage_type is Medium.HDD else None,
        efa_enabled=True if declared.efa else None,
        data_compression_type="LZ4" if declared.compression else "NONE",
        automatic_backup_retention_days=declared.backups if persistent else None,
        skip_final_backup=True,
        tags=site.named(name),
        opts=site.options(depends_on=wires.storage_rules),
    )
    for index, repository in enumerate(declared.data_repositories):
        _repository(site, f"{name}-repository-{index}", made, repository)
    source = pulumi.Output.concat(made.dns_name, "@tcp:/", made.mount_name)
    return SharedStorage(made, source)


def _repository(site: StackContext, name: str, made: aws.fsx.LustreFileSystem, declared: DataRepository) -> None:
    policies = aws.fsx.DataRepositoryAssociationS3Args(
        auto_import_policy=aws.fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(events=[event.value for event in declared.imports]),
        auto_export_policy=aws.fsx.DataRepositoryAssociationS3AutoExportPolicyArgs(events=[event.value for event in declared.exports]),
    )
    aws.fsx.DataRepositoryAssociation(
        name,
        file_system_id=made.id,
        file_system_path=declared.folder,
        data_repository_path=f"s3://{declared.bucket}/{declared.prefix}",
        batch_import_meta_data_on_create=True,
        delete_data_in_filesystem=False,
        s3=policies,
        tags=site.named(name),
        opts=site.options(),
    )


def volumes(site: StackContext, made: dict[str, NodeInstance]) -> dict[str, dict[str, pulumi.Output[str]]]:
    """Return node -> mount point -> device, for every disk of the plan. A recreated node gets its disk attached again."""
    devices: dict[str, dict[str, pulumi.Output[str]]] = {}
    for planned in site.plan.volumes:
        disk = _disk(site, planned)
        mine = devices.setdefault(planned.node, {})
        attached = aws.ec2.VolumeAttachment(
            f"{planned.name}-attached",
            volume_id=disk.id,
            instance_id=made[planned.node].instance.id,
            device_name=f"/dev/sd{chr(ord('f') + len(mine))}",
            stop_instance_before_detaching=True,
            opts=site.options(),
        )
        mine[planned.mount] = attached.volume_id.apply(lambda volume: _DEVICE + volume.replace("-", ""))
    return devices


def _disk(site: StackContext, planned: Volume) -> aws.ebs.Volume:
    return aws.ebs.Volume(
        planned.name,
        availability_zone=site.target.zone,
        size=-(-planned.size_mib // 1024) if planned.size_mib else SMALL_DISK_GIB,
        type="gp3",
        encrypted=True,
        tags=site.named(planned.name),
        opts=site.options(),
    )
