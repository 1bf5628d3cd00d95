"""What a declared fabric stands for: its switch, its groups with their places, its rails, its measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil

from rackwright.catalog.switches import Switch, switches
from rackwright.derive.fabric_layout import Layout, compute_layout
from rackwright.derive.layout import capacity_of
from rackwright.model.cluster import Cluster
from rackwright.model.fabric.switches import DEFAULT_SWITCH, Fabric, FabricKind


def switch_of(declared: Fabric) -> Switch | None:
    """The model its switches are; None where the catalogue does not know it."""
    return switches().get(declared.switch or DEFAULT_SWITCH[declared.kind])


def groups_of(cluster: Cluster, declared: Fabric) -> tuple[str, ...]:
    """Groups on the fabric, in the order in which the cluster declares them."""
    if declared.groups:
        return tuple(name for name in cluster.groups if name in declared.groups)
    return tuple(name for name, group in cluster.groups.items() if group.gpus is not None and group.gpus.count)


def rails_of(cluster: Cluster, declared: Fabric) -> int:
    """HCAs per node: as said, or as many as GPUs in a node of its groups; one where those have none."""
    if declared.rails is not None:
        return declared.rails
    return len(declared.hcas) or max(gpus_of(cluster, declared).values(), default=0) or 1


def gpus_of(cluster: Cluster, declared: Fabric) -> dict[str, int]:
    """Group on the fabric -> GPUs of each of its nodes, 0 where it has none."""
    return {name: gpus.count if (gpus := cluster.groups[name].gpus) else 0 for name in groups_of(cluster, declared)}


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


def domains_of(cluster: Cluster, declared: Fabric) -> dict[str, int]:
    """Group -> its first NVLink domain: each has its own, as many as its capacity fills. A group without GPUs has none."""
    domains, following = {}, 0
    for name, gpus in gpus_of(cluster, declared).items():
        if declared.nvlink_domain and gpus:
            domains[name] = following
            following += ceil(capacity_of(name, cluster.groups[name]) / declared.nvlink_domain)
    return domains


def nodes_of(cluster: Cluster, declared: Fabric) -> int:
    """Nodes it is laid out for."""
    if declared.max_nodes is not None:
        return declared.max_nodes
    return max(1, sum(capacity_of(name, cluster.groups[name]) for name in groups_of(cluster, declared)))


def future_racks(standing: Iterable[str], taken: Iterable[str], here: Iterable[str]) -> list[str]:
    """A rack for each node that may come: the floor's racks with nothing in them, in its order, each as full as the fullest today.

    `here`: the racks of the fabric's nodes, one for each node that has one.

    >>> racks_to_come(["r1", "n1", "r2"], taken=["r1", "n1"], here=["r1", "r1"])
    ['r2', 'r2']
    """
    together, occupied = max(Counter(here).values(), default=1), frozenset(taken)
    return [rack for rack in standing if rack not in occupied for _ in range(together)]


def measures_of(cluster: Cluster, declared: Fabric, switch: Switch | None) -> Layout | None:
    """Its measures; None where two levels of the switch cannot carry it."""
    if switch is None:
        return None
    return compute_layout(
        ports=switch.ports,
        rails=rails_of(cluster, declared),
        nodes=nodes_of(cluster, declared),
        oversubscription=declared.oversubscription,
        topology=declared.topology,
        spare=int(manages_apart(cluster, declared)),
        split=switch.links_per_port(declared.rate) or 1,
    )


def manages_apart(cluster: Cluster, declared: Fabric) -> bool:
    """Whether the subnet manager is a node that has no HCA on the fabric but the one it manages it by."""
    name = declared.subnet_manager
    return (
        name is not None
        and declared.kind is FabricKind.INFINIBAND
        and not any(name == f"{group}{index}" for group in groups_of(cluster, declared) for index in range(cluster.groups[group].count))
    )
