"""The declared fabric's derived values: switch model, groups with their places, rails, layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil

from rackwright.catalog.switches import HcaPort, Switch, links_worth, switches
from rackwright.derive.fabric_layout import Layout, compute_layout
from rackwright.derive.layout import capacity_of
from rackwright.model.cluster import Cluster
from rackwright.model.fabric.switches import DEFAULT_SWITCH, MAX_RAILS, Fabric, FabricKind
from rackwright.model.groups import node_names_of
from rackwright.model.targets.vm import VmTarget


def switch_of(declared: Fabric) -> Switch | None:
    """Return the model of its switches, or None if the catalogue has no such model."""
    return switches().get(declared.switch or DEFAULT_SWITCH[declared.kind])


def groups_of(cluster: Cluster, declared: Fabric) -> tuple[str, ...]:
    """Return the groups on the fabric, in the order in which the cluster declares them."""
    if declared.groups:
        return tuple(name for name in cluster.groups if name in declared.groups)
    return tuple(name for name, group in cluster.groups.items() if group.gpus is not None and group.gpus.count)


def rails_of(cluster: Cluster, declared: Fabric) -> int:
    """Return HCAs per node: as declared, or the number of GPUs in a node of its groups; one where those have none."""
    if declared.rails is not None:
        return declared.rails
    return len(declared.hcas) or max(gpus_of(cluster, declared).values(), default=0) or 1


def gpus_of(cluster: Cluster, declared: Fabric) -> dict[str, int]:
    """Return group on the fabric -> GPUs of each of its nodes, 0 where it has none."""
    return {name: gpus.count if (gpus := cluster.groups[name].gpus) else 0 for name in groups_of(cluster, declared)}


def hcas_of(cluster: Cluster, declared: Fabric) -> tuple[str, ...]:
    """Return device names by rail. Cards of virtual machines have software RDMA devices, which the role `roce` names.

    Returns at most MAX_RAILS names, since the rules also see stack files with more GPUs per node than rule gpu-count accepts.
    """
    driver = "rxe" if isinstance(cluster.target, VmTarget) else "mlx5_"
    return declared.hcas or tuple(f"{driver}{rail}" for rail in range(min(rails_of(cluster, declared), MAX_RAILS)))


def places_of(cluster: Cluster, declared: Fabric) -> dict[str, int]:
    """Return group -> place of its first node. Groups follow one another, each as long as its capacity, like their addresses."""
    places, following = {}, 0
    for name in groups_of(cluster, declared):
        places[name] = following
        following += capacity_of(name, cluster.groups[name])
    return places


def domains_of(cluster: Cluster, declared: Fabric) -> dict[str, int]:
    """Return group -> its first NVLink domain: each group has its own, as many as its capacity fills. A group without GPUs has none."""
    domains, following = {}, 0
    for name, gpus in gpus_of(cluster, declared).items():
        if declared.nvlink_domain and gpus:
            domains[name] = following
            following += ceil(capacity_of(name, cluster.groups[name]) / declared.nvlink_domain)
    return domains


def nodes_of(cluster: Cluster, declared: Fabric) -> int:
    """Return the number of nodes of the layout."""
    if declared.max_nodes is not None:
        return declared.max_nodes
    return max(1, sum(capacity_of(name, cluster.groups[name]) for name in groups_of(cluster, declared)))


def future_racks(standing: Iterable[str], taken: Iterable[str], here: Iterable[str]) -> list[str]:
    """Return a rack for each future node: the floor's empty racks in order, each filled like the fullest today.

    `here`: the racks of the fabric's nodes, one for each node that has one.

    >>> future_racks(["r1", "n1", "r2"], taken=["r1", "n1"], here=["r1", "r1"])
    ['r2', 'r2']
    """
    together, occupied = max(Counter(here).values(), default=1), frozenset(taken)
    return [rack for rack in standing if rack not in occupied for _ in range(together)]


def port_of(declared: Fabric) -> HcaPort | None:
    """Return a port of its leaves for HCAs; None if the switch is unknown or its ports cannot serve the declared rate."""
    switch = switch_of(declared)
    return switch.port_at(declared.rate, declared.split) if switch else None


def measures_of(cluster: Cluster, declared: Fabric, switch: Switch | None) -> Layout | None:
    """Return the layout, or None where three levels of the switch cannot serve it."""
    if switch is None:
        return None
    port = port_of(declared)
    return compute_layout(
        ports=switch.ports,
        rails=rails_of(cluster, declared),
        nodes=nodes_of(cluster, declared),
        oversubscription=declared.oversubscription,
        topology=declared.topology,
        spare=int(manages_apart(cluster, declared)),
        split=port.links if port else 1,
        worth=links_worth(switch.rate_gbps, port.gbps) if port else 1,
    )


def manages_apart(cluster: Cluster, declared: Fabric) -> bool:
    """Return whether the subnet manager is a node whose only HCA on the fabric is the one that manages it."""
    name = declared.subnet_manager
    return (
        name is not None
        and declared.kind is FabricKind.INFINIBAND
        and not any(name in node_names_of(group, cluster.groups[group]) for group in groups_of(cluster, declared))
    )
