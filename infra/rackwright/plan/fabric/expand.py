"""cluster -> the dimensions of its fabric."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rackwright.catalog.switches import HcaPort, Switch, switches
from rackwright.derive.fabric import domains_of, hcas_of, manages_apart, measures_of, nodes_of, places_of, port_of, rails_of, switch_of
from rackwright.derive.fabric_layout import Layout, Pods
from rackwright.model.cluster import Cluster
from rackwright.model.fabric.switches import Fabric, Floor, Management
from rackwright.plan.fabric.schema import Dpu, FabricPlan, FloorPlan, ManagementPlan, PodsPlan


def expand_fabric(cluster: Cluster) -> FabricPlan | None:
    """Return the fabric that the cluster declares, or None."""
    declared = cluster.fabric
    if declared is None:
        return None
    switch, port = switch_of(declared), port_of(declared)
    measures = measures_of(cluster, declared, switch)
    assert switch is not None and measures is not None and port is not None, "rules refuse it"
    return FabricPlan(
        kind=declared.kind,
        topology=declared.topology,
        oversubscription=declared.oversubscription,
        subnet_manager=declared.subnet_manager,
        spare=int(manages_apart(cluster, declared)),
        simulated="fabric" in cluster.target.simulated,
        floor=_floor(declared.floor_plan),
        management=_management(declared.management_network),
        dpus=tuple(Dpu(group=group, **said.model_dump()) for group, said in declared.dpus.items()),
        nvlink_domain=declared.nvlink_domain,
        domains=domains_of(cluster, declared),
        **_hcas(cluster, declared),
        **_switches(switch, port),
        **_layout(measures),
    )


def _hcas(cluster: Cluster, declared: Fabric) -> dict[str, Any]:
    """Return the HCAs of a node, and the places of the nodes."""
    return {
        "rails": rails_of(cluster, declared),
        "hcas": hcas_of(cluster, declared),
        "named": bool(declared.hcas),
        "nodes": nodes_of(cluster, declared),
        "places": places_of(cluster, declared),
    }


def _switches(switch: Switch, port: HcaPort) -> dict[str, Any]:
    """Return ports and rates of the switches."""
    return {
        "switch": switch.model,
        "ports": switch.ports,
        "split": port.links,
        "speed": switch.speed,
        "rate": port.rate,
        "width": port.width,
        "rate_gbps": port.gbps,
        "switch_width": switch.width,
        "switch_gbps": switch.rate_gbps,
        "link_layer": switch.link_layer,
        "rack_units": switch.rack_units,
        "line_card": switch.line_card,
        "manageable": switch.subnet_manager_nodes,
    }


def _layout(measures: Layout) -> dict[str, Any]:
    """Return the numbers of switches and cables."""
    return {
        "per_unit": measures.per_unit,
        "units": measures.units,
        "spines": measures.spines,
        "links": measures.links,
        "pods": _pods(measures.pods),
    }


def _pods(measured: Pods | None) -> PodsPlan | None:
    return PodsPlan(**asdict(measured)) if measured else None


def _floor(declared: Floor | None) -> FloorPlan | None:
    if declared is None:
        return None
    return FloorPlan(
        places={rack: (row, number) for row, racks in enumerate(declared.rows) for number, rack in enumerate(racks)},
        switch_racks=declared.switch_racks,
        rack_width_cm=declared.rack_width_cm,
        row_pitch_cm=declared.row_pitch_cm,
    )


def _management(declared: Management | None) -> ManagementPlan | None:
    if declared is None:
        return None
    known = switches()[declared.switch]
    assert known.rack_units is not None, "rules refuse it"
    return ManagementPlan(switch=known.model, ports=known.ports, speed=known.speed, rack_units=known.rack_units, bmc=declared.bmc)
