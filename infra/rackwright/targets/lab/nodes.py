"""Lab nodes: containers from one baked image, each with an identity made before it exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pulumi

from rackwright import layout
from rackwright.model.target import LabTarget
from rackwright.plan import Plan, PlanNode
from rackwright.targets import digests, resources

INOTIFY_INSTANCES: Final = 1024
"""A node of Kubernetes takes 15 to 30 of what all containers share: room for some dozens of nodes."""
INOTIFY_PER_NODE: Final = 8
"""A node without containers of its own takes 6: five its systemd, one its dbus-daemon (`find /proc/*/fd -lname anon_inode:inotify`)."""
_INOTIFY_LEFT: Final = 96
"""Of the 128 that distributions allow, what nodes may take without anybody asking."""


def image(plan: Plan, bundle: resources.Bundle | None) -> resources.Image:
    """The image all nodes start from."""
    target = plan.target
    assert isinstance(target, LabTarget)
    return resources.Image(
        "image",
        os=target.os.value,
        source=target.image.value,
        mirror=target.mirror,
        scheduler=plan.scheduler.kind,
        bundle=bundle.folder if bundle else None,
        digest=digests.bake(layout.product_root(), plan.scheduler.kind),
    )


def limits(plan: Plan, label: resources.StackMarker) -> resources.InotifyLimits | None:
    """What nodes that run containers, or many nodes, take of the machine."""
    wanted = INOTIFY_PER_NODE * len(plan.nodes)
    if plan.groups["kubernetes"]:
        wanted = max(wanted, INOTIFY_INSTANCES)
    elif wanted <= _INOTIFY_LEFT:
        return None
    found_by = pulumi.ResourceOptions(depends_on=[label])
    return resources.InotifyLimits("limits", stack=plan.stack, inotify_instances=wanted, opts=found_by)


def node(
    plan: Plan,
    planned: PlanNode,
    *,
    baked: resources.Image,
    bridge: resources.Network,
    volumes: Mapping[str, resources.Volume],
    access_key: pulumi.Input[str],
    allowed: resources.InotifyLimits | None,
) -> resources.Node:
    """One container; only login nodes are published."""
    port = plan.access.ports.get(planned.name)
    assert planned.mac is not None
    return resources.Node(
        planned.name,
        stack=plan.stack,
        image=baked.image,
        network=bridge.id,
        address=planned.address,
        mac=planned.mac,
        gpus=planned.gpus.count if planned.gpus else 0,
        nests=planned.name in plan.groups["kubernetes"],
        volumes={mount: volume.id for mount, volume in volumes.items()},
        published=[] if port is None else [f"{plan.access.listen}:{port}:22"],
        host_key=resources.SshKeyPair(f"{planned.name}-host-key", comment=f"{planned.name}.{plan.stack}"),
        authorized_key=access_key,
        opts=pulumi.ResourceOptions(depends_on=[allowed]) if allowed else None,
    )
