"""Virtual machines from one prebuilt image, each with a host key that exists before the machine."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

import pulumi

from rackwright import layout
from rackwright.model.targets.vm import VmTarget
from rackwright.plan import Plan, PlanNode
from rackwright.plan.fabric.rails import RailInterface, rail_interfaces
from rackwright.targets import digests, resources
from rackwright.targets.vm import resources as vm_resources


def machine_image(plan: Plan) -> vm_resources.MachineImage | vm_resources.MachineCloudImage:
    """Create the image from which all machines start: the vendor's, or one from the files of the node image."""
    target = plan.target
    assert isinstance(target, VmTarget)
    if target.cloud_image is not None:
        return vm_resources.MachineCloudImage("machine-image", file=target.cloud_image.file, digest=target.cloud_image.digest)
    baked = resources.Image(
        "image",
        os=target.os.value,
        source=target.image.value,
        mirror=target.mirror,
        scheduler=plan.scheduler.kind,
        bundle=None,
        digest=digests.bake(layout.product_root(), plan.scheduler.kind),
    )
    return vm_resources.MachineImage("machine-image", node_image=baked.image)


def node(
    plan: Plan,
    planned: PlanNode,
    *,
    image: vm_resources.MachineImage | vm_resources.MachineCloudImage,
    switches: vm_resources.MachineNetwork,
    volumes: Mapping[str, vm_resources.MachineVolume],
    access_key: pulumi.Input[str],
) -> vm_resources.Machine:
    """Create one machine; only login nodes have a forwarded port."""
    target, port = plan.target, plan.access.ports.get(planned.name)
    assert isinstance(target, VmTarget) and planned.mac is not None
    return vm_resources.Machine(
        planned.name,
        stack=plan.stack,
        image=image.folder,
        network=switches.folder,
        acceleration=target.acceleration.value,
        address=planned.address,
        prefix=IPv4Network(plan.network.cidr).prefixlen,
        mac=planned.mac,
        cpus=planned.cpus,
        memory_mib=planned.memory_mib,
        volumes={mount: volume.file for mount, volume in volumes.items()},
        published=[] if port is None else [f"{plan.access.listen}:{port}:22"],
        host_key=resources.SshKeyPair(f"{planned.name}-host-key", comment=f"{planned.name}.{plan.stack}"),
        authorized_key=access_key,
        rails=[_rail(interface) for interface in rail_interfaces(plan, planned)],
        cloud_image=target.cloud_image is not None,
    )


def _rail(interface: RailInterface) -> dict[str, Any]:
    return {"name": interface.name, "mac": interface.mac, "address": f"{interface.address}/{interface.prefix}", "mtu": interface.mtu}
