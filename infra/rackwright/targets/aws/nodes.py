"""Nodes as instances, each with an address of the plan and a host key that exists before the instance."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from rackwright.drivers.cloud_config import cloud_config, user_data
from rackwright.model.groups import Role
from rackwright.model.tier import Tier
from rackwright.plan import PlanNode
from rackwright.targets.aws.account import StackContext
from rackwright.targets.aws.interfaces import InterfaceKind, interfaces
from rackwright.targets.aws.network import NetworkResources
from rackwright.targets.aws.node_groups import InstanceGroup
from rackwright.targets.resources import SshKeyPair


@dataclass(frozen=True)
class NodeInstance:
    """A node that exists."""

    planned: PlanNode
    instance: aws.ec2.Instance
    public_address: pulumi.Output[str] | None
    boot_key: SshKeyPair
    """Readable by root on the node and by every principal with read access to the instance's user data; replaced at the first converge."""
    host_key: SshKeyPair

    def record(self, devices: Mapping[str, pulumi.Input[str]]) -> dict[str, Any]:
        """Return the node's host record."""
        return {
            "address": self.public_address or self.planned.address,
            "port": self.planned.ssh_port,
            "user": self.planned.user,
            "public_key": self.host_key.public_key,
            "boot_public_key": self.boot_key.public_key,
            "instance_uid": self.instance.id,
            "devices": dict(devices),
        }


def node(
    site: StackContext, wires: NetworkResources, fleet: InstanceGroup, planned: PlanNode, *, access_key: pulumi.Input[str]
) -> NodeInstance:
    """Create one instance.

    Image and template count at its creation: an existing instance is converged in place, and replaced on request only.
    """
    entry = Role.LOGIN in planned.roles
    boot_key = SshKeyPair(f"{planned.name}-boot-key", comment=f"{planned.name}.{site.plan.stack} until it is converged")
    host_key = SshKeyPair(f"{planned.name}-host-key", comment=f"{planned.name}.{site.plan.stack}")
    subnet = wires.subnets[Tier.PUBLIC if entry else Tier.PRIVATE]
    rules = [wires.cluster.id, *([wires.entry.id] if entry else [])]
    instance = aws.ec2.Instance(
        planned.name,
        instance_type=fleet.declared.type,
        user_data_base64=_user_data(planned, boot_key, access_key),
        tags=site.named(planned.name),
        **_connected(site, fleet, planned, subnet, rules),
        # Its address and its slot in a full reservation are free only after the old instance is deleted.
        opts=site.options(depends_on=wires.ready, ignore_changes=["launchTemplate", "userDataBase64"], delete_before_replace=True),
    )
    return NodeInstance(planned, instance, _public(site, planned, instance) if entry else None, boot_key, host_key)


def _connected(
    site: StackContext, fleet: InstanceGroup, planned: PlanNode, subnet: aws.ec2.Subnet, rules: list[pulumi.Output[str]]
) -> dict[str, Any]:
    """Return template and network. EC2 accepts an address beside a template, but not beside its interfaces: then the template has it."""
    if fleet.template is not None:
        return {
            "launch_template": aws.ec2.InstanceLaunchTemplateArgs(id=fleet.template),
            "subnet_id": subnet.id,
            "private_ip": planned.address,
            "vpc_security_group_ids": rules,
        }
    own = aws.ec2.LaunchTemplate(
        f"{planned.name}-template",
        **fleet.arguments,
        network_interfaces=_network_interfaces(fleet, planned, subnet, rules),
        tags=site.named(planned.name),
        opts=site.options(),
    )
    return {"launch_template": aws.ec2.InstanceLaunchTemplateArgs(id=own.id)}


def _network_interfaces(
    fleet: InstanceGroup, planned: PlanNode, subnet: aws.ec2.Subnet, rules: list[pulumi.Output[str]]
) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]:
    return [
        aws.ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=interface.card,
            device_index=interface.device,
            interface_type=None if interface.kind is InterfaceKind.IP else interface.kind.value,
            subnet_id=subnet.id,
            security_groups=rules,
            private_ip_address=planned.address if interface.card == 0 else None,
            delete_on_termination="true",
        )
        for interface in interfaces(fleet.type, efa=fleet.declared.efa)
    ]


def _public(site: StackContext, planned: PlanNode, instance: aws.ec2.Instance) -> pulumi.Output[str]:
    """Return an address that survives a stop and a replacement of the instance."""
    address = aws.ec2.Eip(f"{planned.name}-address", domain="vpc", tags=site.named(planned.name), opts=site.options())
    addressed = aws.ec2.EipAssociation(
        f"{planned.name}-addressed", allocation_id=address.allocation_id, instance_id=instance.id, opts=site.options()
    )
    return pulumi.Output.all(address.public_ip, addressed.id).apply(lambda known: str(known[0]))


def _user_data(planned: PlanNode, boot_key: SshKeyPair, access_key: pulumi.Input[str]) -> pulumi.Output[str]:
    """Return the cloud-init data of the first boot: name, host key, and one authorised key. A secret, since it contains the host key."""
    known = pulumi.Output.all(private=boot_key.private_key, public=boot_key.public_key, access=access_key)
    return pulumi.Output.secret(known.apply(lambda keys: base64.b64encode(user_data(_config(planned, **keys)).encode()).decode()))


def _config(planned: PlanNode, **keys: str) -> dict[str, Any]:
    """Return the cloud-config of a node: the image's own user has the key, not root."""
    return {**cloud_config(hostname=planned.name, **keys), "fqdn": planned.fqdn, "disable_root": True}
