"""Lab nodes: containers from one prebuilt image, each with a host key that exists before the container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pulumi

from rackwright import layout
from rackwright.model.targets.lab import LabTarget
from rackwright.plan import Plan, PlanNode
from rackwright.targets import digests, resources

INOTIFY_INSTANCES: Final = 1024
"""All containers share these; a node of Kubernetes uses 15 to 30: enough for some dozens of nodes."""
INOTIFY_PER_NODE: Final = 8
"""A node without containers of its own uses 6: five by systemd, one by dbus-daemon (`find /proc/*/fd -lname anon_inode:inotify`)."""
_INOTIFY_LEFT: Final = 96
"""Number of instances, of the 128 that distributions allow, that nodes may use without raising the limit."""


def image(plan: Plan, bundle: resources.Bundle | None) -> resources.Image:
    """Create the image from which all nodes start."""
    target = plan.target
    assert isinstance(target, LabTarget)
    return resources.Image(
        "image",
        os=target.os.value,
        source=target.image.value,
        mirror=target.mirror,
        scheduler=plan.scheduler.kind,
        bundle=bundle.folder if bundle else None,
        digest=digests.bake(layout.product_root(), plan.scheduler.kind, kubernetes_release(plan)),
    )


def kubernetes_release(plan: Plan) -> str:
    """Return the release of Kubernetes, whose programs are in the image; empty for another scheduler."""
    return plan.scheduler.version if plan.scheduler.kind == "kubernetes" else ""


def limits(plan: Plan, label: resources.StackMarker) -> resources.InotifyLimits | None:
    """Create the limits that nodes with containers, or many nodes, need from the machine."""
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
    """Create one container; only login nodes have a published port."""
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
