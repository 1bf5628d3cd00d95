"""How machines are reached: directly, or through one of them."""

from __future__ import annotations

from typing import Any

from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import PlanNode


def way(target: HostsTarget, node: PlanNode) -> dict[str, Any]:
    """Where a machine's SSH server is, as seen from where its connection starts, who logs in and the key it must show."""
    machine = target.each[node.name]
    return {
        "name": node.name,
        "address": machine.ssh_address or node.address,
        "port": node.ssh_port,
        "user": node.user,
        "host_key": machine.host_key,
    }
