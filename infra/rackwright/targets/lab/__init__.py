"""Target `lab`: containers on this machine that look like the machines of a rack."""

from __future__ import annotations

from typing import Any

import pulumi

from rackwright.plan import Plan
from rackwright.targets.lab.network import network
from rackwright.targets.lab.nodes import image, node
from rackwright.targets.lab.storage import volumes

__all__ = ["build"]


def build(plan: Plan, access_key: pulumi.Input[str]) -> dict[str, dict[str, Any]]:
    """One image and one bridge for all; a container and a pinned host key for each node."""
    bridge, baked, kept = network(plan), image(plan), volumes(plan)
    hosts = {}
    for planned in plan.nodes:
        made = node(plan, planned, baked=baked, bridge=bridge, volumes=kept.get(planned.name, {}), access_key=access_key)
        hosts[planned.name] = {"address": planned.address, "public_key": made.host_public_key, "incarnation": made.incarnation}
    return hosts
