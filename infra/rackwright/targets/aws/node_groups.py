"""What the instances of a group share: a template, a placement group, a reservation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.model.targets.aws import CapacityBlock, Instances, OnDemand, Spot
from rackwright.targets.aws.account import StackContext

_ROOT_DEVICE = {"ubuntu": "/dev/sda1", "debian": "/dev/xvda", "rocky": "/dev/sda1"}
"""The root device's name in the distributions' own images (their DescribeImages: RootDeviceName)."""


@dataclass(frozen=True)
class InstanceGroup:
    """A group with everything that a launch of its instances needs."""

    name: str
    declared: Instances
    type: InstanceType
    template: pulumi.Input[str] | None
    """Id of the shared template; None where each node has its own, since its address is part of the template."""
    arguments: dict[str, Any]
    """Arguments of a template, for instances that have their own."""


def group(site: StackContext, name: str, profile: aws.iam.InstanceProfile) -> InstanceGroup:
    """Create the placement group, the reservation and the template of a group."""
    declared = site.target.instances[name]
    known = instance_types()[declared.type]
    arguments = _arguments(site, name, known, profile)
    if declared.efa:
        return InstanceGroup(name, declared, known, None, arguments)
    template = aws.ec2.LaunchTemplate(f"{name}-template", **arguments, tags=site.named(name), opts=site.options())
    return InstanceGroup(name, declared, known, template.id, arguments)


def _arguments(site: StackContext, name: str, known: InstanceType, profile: aws.iam.InstanceProfile) -> dict[str, Any]:
    declared = site.target.instances[name]
    image = declared.image or site.target.image
    return {
        "image_id": image.id,
        "instance_type": declared.type,
        "iam_instance_profile": aws.ec2.LaunchTemplateIamInstanceProfileArgs(arn=profile.arn),
        "metadata_options": aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
        ),
        "block_device_mappings": [_root(site, declared)],
        "placement": _placement(site, name, declared),
        "update_default_version": True,
        "tag_specifications": [
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=site.tags) for kind in ("volume", "network-interface")
        ],
        "cpu_options": _cpu_options(site, name, known),
        **_market(site, name, declared),
    }


def _cpu_options(site: StackContext, name: str, known: InstanceType) -> aws.ec2.LaunchTemplateCpuOptionsArgs | None:
    """Return the threads of each core. EC2 takes them with the number of cores only (LaunchTemplateCpuOptionsRequest); all are kept."""
    threads = next((node.threads_per_core for node in site.plan.nodes if node.group == name), None)
    if threads is None or threads == known.threads_per_core:
        return None
    return aws.ec2.LaunchTemplateCpuOptionsArgs(core_count=known.cores, threads_per_core=threads)


def _root(site: StackContext, declared: Instances) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    disk = aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
        volume_type="gp3",
        volume_size=-(-declared.root_volume.size // 2**30),
        iops=declared.root_volume.iops,
        throughput=declared.root_volume.throughput,
        encrypted="true",
        delete_on_termination="true",
    )
    device = _ROOT_DEVICE[site.target.os.value.split("-")[0]]
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(device_name=device, ebs=disk)


def _placement(site: StackContext, name: str, declared: Instances) -> aws.ec2.LaunchTemplatePlacementArgs | None:
    if not declared.stands_together:
        return None
    place = aws.ec2.PlacementGroup(f"{name}-place", strategy="cluster", tags=site.named(name), opts=site.options())
    return aws.ec2.LaunchTemplatePlacementArgs(group_name=place.name)


def _market(site: StackContext, name: str, declared: Instances) -> dict[str, Any]:
    """Return the template arguments that define how the instances are bought."""
    match declared.capacity_type:
        case Spot(max_usd_per_hour=most):
            # One-time and terminated: AWS deletes a reclaimed node, and the next `up` creates it again.
            options = aws.ec2.LaunchTemplateInstanceMarketOptionsSpotOptionsArgs(
                spot_instance_type="one-time", instance_interruption_behavior="terminate", max_price=str(most) if most else None
            )
            return {"instance_market_options": aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="spot", spot_options=options)}
        case CapacityBlock() as block:
            market = aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block")
            return {"instance_market_options": market, **_reserved(_block(site, name, block))}
        case OnDemand(reservation=str() as reservation):
            return _reserved(reservation)
        case _:
            return {}


def _reserved(reservation: pulumi.Input[str]) -> dict[str, Any]:
    target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(capacity_reservation_id=reservation)
    return {
        "capacity_reservation_specification": aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)
    }


def _block(site: StackContext, name: str, block: CapacityBlock) -> pulumi.Input[str]:
    """Return the capacity block: the one on record, or one that is bought once.

    Every look-up returns a new offering, hence a new purchase.
    """
    if block.reservation is not None:
        return block.reservation
    bought = aws.ec2.CapacityBlockReservation(
        f"{name}-block",
        capacity_block_offering_id=block.offering,
        instance_platform="Linux/UNIX",
        tags=site.named(name),
        opts=site.options(ignore_changes=["capacityBlockOfferingId"]),
    )
    return bought.id
