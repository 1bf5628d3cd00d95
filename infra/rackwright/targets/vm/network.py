"""The network of virtual machines: the cluster's switch, to which every machine has a port."""

from __future__ import annotations

import json
from typing import Final

import pulumi

from rackwright import layout
from rackwright.drivers.vm.network.topology import Port, Switch, Topology
from rackwright.plan import Plan
from rackwright.targets import digests
from rackwright.targets.vm import resources

CLUSTER: Final = "cluster"
"""The switch of the cluster's network."""
CLUSTER_INTERFACE: Final = "eth0"
"""Interface of the cluster's network on every machine."""


def network(plan: Plan, marker: resources.MachineStackMarker) -> resources.MachineNetwork:
    """Create the switches with a port for every machine."""
    topology = json.dumps(planned_topology(plan).as_data(), sort_keys=True)
    program, found_by = digests.machine_network(layout.product_root()), pulumi.ResourceOptions(depends_on=[marker])
    return resources.MachineNetwork("network", stack=plan.stack, topology=topology, program=program, opts=found_by)


def planned_topology(plan: Plan) -> Topology:
    """Return the plan's switches and ports."""
    ports = tuple(
        Port(
            name=f"{node.name}.{CLUSTER_INTERFACE}",
            switch=CLUSTER,
            mac=node.mac or "",
            peer=f"../nodes/{node.name}/{CLUSTER_INTERFACE}.sock",
        )
        for node in plan.nodes
    )
    return Topology(switches={CLUSTER: Switch(mtu=plan.target.mtu)}, ports=ports)
