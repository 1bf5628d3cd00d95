"""cluster -> the measures of its fabric."""

from __future__ import annotations

from rackwright.catalog.switches import Switch, switches
from rackwright.model.cluster import Cluster
from rackwright.model.fabric import DEFAULT_SWITCH, Fabric
from rackwright.model.layout import capacity_of
from rackwright.plan.fabric.layout import Layout, lay_out
from rackwright.plan.fabric.shape import FabricPlan


def expand_fabric(cluster: Cluster) -> FabricPlan | None:
    """The fabric that the cluster declares; None where it declares none."""
    declared = cluster.fabric
    if declared is None:
        return None
    switch = switch_of(declared)
    measures = measures_of(cluster, declared, switch)
    assert switch is not None and measures is not None, "rules refuse it"
    return FabricPlan(
        kind=declared.kind,
        topology=declared.topology,
        switch=switch.model,
        ports=switch.ports,
        speed=switch.speed,
        width=switch.width,
        rate_gbps=switch.rate_gbps,
        link_layer=switch.link_layer,
        device_id=switch.device_id,
        rails=rails_of(cluster, declared),
        hcas=hcas_of(cluster, declared),
        oversubscription=declared.oversubscription,
        nodes=nodes_of(cluster, declared),
        places=places_of(cluster, declared),
        per_unit=measures.per_unit,
        units=measures.units,
        spines=measures.spines,
        links=measures.links,
        subnet_manager=declared.subnet_manager,
        simulated="fabric" in cluster.target.simulated,
    )


def switch_of(declared: Fabric) -> Switch | None:
    """The model its switches are; None where the catalogue does not know it."""
    return switches().get(declared.switch or DEFAULT_SWITCH[declared.kind])


def groups_of(cluster: Cluster, declared: Fabric) -> tuple[str, ...]:
    """Groups on the fabric, in the order in which the cluster declares them."""
    if declared.groups:
        return tuple(name for name in cluster.groups if name in declared.groups)
    return tuple(name for name, group in cluster.groups.items() if group.gpus is not None and group.gpus.count)


def rails_of(cluster: Cluster, declared: Fabric) -> int:
    """HCAs per node: as said, or as many as GPUs in a node of its groups."""
    if declared.rails is not None:
        return declared.rails
    counts = (group.gpus.count for name in groups_of(cluster, declared) if (group := cluster.groups[name]).gpus is not None)
    return len(declared.hcas) or max(counts, default=1)


def hcas_of(cluster: Cluster, declared: Fabric) -> tuple[str, ...]:
    """Device names by rail."""
    return declared.hcas or tuple(f"mlx5_{rail}" for rail in range(rails_of(cluster, declared)))


def places_of(cluster: Cluster, declared: Fabric) -> dict[str, int]:
    """Group -> place of its first node: groups lie one after the other, each as long as its capacity, as their addresses do."""
    places, following = {}, 0
    for name in groups_of(cluster, declared):
        places[name] = following
        following += capacity_of(name, cluster.groups[name])
    return places


def nodes_of(cluster: Cluster, declared: Fabric) -> int:
    """Nodes it is laid out for."""
    if declared.nodes is not None:
        return declared.nodes
    return max(1, sum(capacity_of(name, cluster.groups[name]) for name in groups_of(cluster, declared)))


def measures_of(cluster: Cluster, declared: Fabric, switch: Switch | None) -> Layout | None:
    """Its measures; None where two levels of the switch cannot carry it."""
    if switch is None:
        return None
    return lay_out(
        ports=switch.ports,
        rails=rails_of(cluster, declared),
        nodes=nodes_of(cluster, declared),
        oversubscription=declared.oversubscription,
        topology=declared.topology,
        spare=1 if manages_apart(cluster, declared) else 0,
    )


def manages_apart(cluster: Cluster, declared: Fabric) -> bool:
    """Whether the subnet manager is a node that has no HCA on the fabric but the one it manages it by."""
    name = declared.subnet_manager
    return name is not None and not any(
        name == f"{group}{index}" for group in groups_of(cluster, declared) for index in range(cluster.groups[group].count)
    )
