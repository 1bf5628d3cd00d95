"""Machines as resources: adopted when they match the plan."""

from __future__ import annotations

import pulumi

from rackwright.inventory.host import ssh_sources
from rackwright.model.targets.hosts import HostsTarget, MachineType
from rackwright.plan import Plan, PlanNode
from rackwright.targets import resources
from rackwright.targets.hosts.network import ssh_route


def host(plan: Plan, target: HostsTarget, node: PlanNode, access_key: pulumi.Input[str]) -> resources.Host:
    """Create the resource of one machine."""
    through = target.jump_host if node.name != target.jump_host else None
    return resources.Host(
        node.name,
        stack=plan.stack,
        route=ssh_route(target, node),
        via=ssh_route(target, plan.node(through)) if through else None,
        identity=target.ssh_private_key_file,
        authorized_key=access_key,
        declared={
            "os": node.os,
            "cpus": node.cpus,
            "memory_mib": node.memory_mib,
            "gpus": node.gpus.count if node.gpus else 0,
            "container": target.machine_type is MachineType.SYSTEM_CONTAINER,
            "serial": target.machine_by_node[node.name].serial,
            "out": not node.is_in,
            "connect_timeout_s": target.connect_timeout,
            "sshd_port": node.ssh_port,
            "admitted": list(ssh_sources(plan, node.name)),
        },
        leave=target.on_removal.value,
    )
