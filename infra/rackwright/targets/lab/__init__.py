"""Target `lab`: containers on this machine that behave like the machines of a rack."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets import TargetResult
from rackwright.targets.kubernetes import bundle
from rackwright.targets.lab.network import network
from rackwright.targets.lab.nodes import image, limits, node
from rackwright.targets.lab.power import depends_on_value, power
from rackwright.targets.lab.storage import volumes
from rackwright.targets.resources import StackMarker

__all__ = ["build"]


def build(plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
    """Create one image and one bridge for all nodes; a container and a pinned host key for each."""
    label, kubernetes = StackMarker("label", stack=plan.stack), bundle(plan)
    bridge, baked, kept = network(plan, label), image(plan, kubernetes), volumes(plan, label)
    allowed = limits(plan, label)
    made = {
        planned.name: node(
            plan, planned, baked=baked, bridge=bridge, volumes=kept.get(planned.name, {}), access_key=access_key, allowed=allowed
        )
        for planned in plan.nodes
    }
    agent = power(plan, made)
    records = {
        planned.name: {
            "address": planned.address if agent is None else depends_on_value(agent, planned.address),
            "public_key": made[planned.name].host_public_key,
            "instance_uid": made[planned.name].instance_uid,
            "baked": pulumi.Output.all(made[planned.name].image, baked.image).apply(lambda images: images[0] == images[1]),
        }
        for planned in plan.nodes
    }
    return TargetResult(records, bundle=kubernetes.folder if kubernetes else None)
