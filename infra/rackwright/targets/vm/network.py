"""The network of virtual machines: the cluster's switch, to which every machine has a port, and the leaves and spines of the fabric."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pulumi

from rackwright import layout
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology
from rackwright.plan import Plan
from rackwright.plan.fabric import Wiring, wiring
from rackwright.plan.fabric.rails import MTU, rail_interfaces
from rackwright.targets import digests
from rackwright.targets.vm import resources

CLUSTER: Final = "cluster"
"""The switch of the cluster's network."""
CLUSTER_INTERFACE: Final = "eth0"
"""Interface of the cluster's network on every machine."""


def network(plan: Plan, marker: resources.MachineStackMarker) -> resources.MachineNetwork:
    """Create the switches with the ports of every machine."""
    topology = json.dumps(planned_topology(plan).as_data(), sort_keys=True)
    program, found_by = digests.machine_network(layout.product_root()), pulumi.ResourceOptions(depends_on=[marker])
    return resources.MachineNetwork("network", stack=plan.stack, topology=topology, program=program, opts=found_by)


def planned_topology(plan: Plan) -> Topology:
    """Return the plan's switches, ports and cables: the cluster's network, and the fabric apart from it."""
    laid = wiring(plan)
    own = tuple(_port(node.name, CLUSTER_INTERFACE, CLUSTER, node.mac or "") for node in plan.nodes)
    switches = {CLUSTER: Switch(mtu=plan.target.mtu), **{switch.name: Switch(mtu=MTU) for switch in laid.switches}}
    return Topology(switches=switches, ports=(*own, *_rail_ports(plan, laid)), cables=tuple(_cables(plan, laid)))


def _rail_ports(plan: Plan, laid: Wiring) -> Iterator[Port]:
    """Yield the port of each rail on its leaf. Links have the planned rate: senders of software RDMA overrun a receiver without one."""
    leaves = {cable.device: cable.switch for cable in laid.cables}
    for node in plan.nodes:
        for rail in rail_interfaces(plan, node):
            assert plan.fabric is not None, "rails are those of a fabric"
            yield _port(node.name, rail.name, leaves[f"{node.name}/{rail.device}"], rail.mac, _mbps(plan.fabric.rate_gbps))


def _cables(plan: Plan, laid: Wiring) -> Iterator[Cable]:
    """Yield the cables between switches, each named after both its ends."""
    for cable in laid.cables:
        if "/" not in cable.device:
            assert plan.fabric is not None, "cables are those of a fabric"
            name = f"{cable.device}.{cable.port}-{cable.switch}.{cable.switch_port}"
            yield Cable(name=name, a=cable.device, b=cable.switch, rate_mbps=_mbps(plan.fabric.switch_gbps))


def _port(node: str, interface: str, switch: str, mac: str, rate_mbps: float | None = None) -> Port:
    name = f"{node}.{interface}"
    return Port(name=name, switch=switch, mac=mac, peer=f"../nodes/{node}/{interface}.sock", rate_mbps=rate_mbps)


def _mbps(gbps: float) -> float:
    return round(gbps * 1000, 3)
