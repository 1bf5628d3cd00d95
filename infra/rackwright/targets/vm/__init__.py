"""Target `vm`: virtual machines on this machine, each with a kernel of its own."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets import TargetResult
from rackwright.targets.vm.network import network
from rackwright.targets.vm.nodes import machine_image, node
from rackwright.targets.vm.resources import MachineStackMarker
from rackwright.targets.vm.storage import volumes

__all__ = ["build"]


def build(plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
    """Create one image and one network for all nodes; a machine and a pinned host key for each."""
    marker = MachineStackMarker("label", stack=plan.stack)
    switches, image, kept = network(plan, marker), machine_image(plan), volumes(plan, marker)
    made = {
        planned.name: node(plan, planned, image=image, switches=switches, volumes=kept.get(planned.name, {}), access_key=access_key)
        for planned in plan.nodes
    }
    records = {
        planned.name: {
            "address": planned.address,
            "public_key": made[planned.name].host_public_key,
            "instance_uid": made[planned.name].instance_uid,
            "devices": {mount: volume.device for mount, volume in kept.get(planned.name, {}).items()},
            "baked": pulumi.Output.all(made[planned.name].image, image.folder).apply(lambda folders: folders[0] == folders[1]),
        }
        for planned in plan.nodes
    }
    return TargetResult(records, network_revision=switches.revision)
