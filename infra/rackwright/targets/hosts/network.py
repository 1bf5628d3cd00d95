"""SSH routes to machines: directly, or through one of them."""

from __future__ import annotations

from typing import Any

from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import PlanNode


def ssh_route(target: HostsTarget, node: PlanNode) -> dict[str, Any]:
    """Return the address of a machine's SSH server as seen from the start of the connection, the login user and the expected host key."""
    machine = target.machine_by_node[node.name]
    return {
        "name": node.name,
        "address": machine.ssh_address or node.address,
        "port": target.port_of(node.name),
        "user": node.user,
        "host_key": machine.host_key,
    }
