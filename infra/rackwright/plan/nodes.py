"""Declared nodes as the plan's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackwright import catalog
from rackwright.catalog.compatibility import has_nvswitch
from rackwright.catalog.instances import instance_types
from rackwright.derive.layout import blocks
from rackwright.derive.mig import layout
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Gpus, OtherGpus, counts_by_model
from rackwright.model.target import Target
from rackwright.model.targets.hosts import SSH_PORT, HostsTarget
from rackwright.model.units import mebibytes
from rackwright.plan.addresses import address, mac
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.node_features import PARTS
from rackwright.plan.schema import MigInstance, NodeGpu, OtherGpu, PlanNode
from rackwright.plan.software import driver_version, modules


def expand_nodes(
    cluster: Cluster,
    stack: str,
    domain: str,
    declared: Sequence[DeclaredNode],
    by_feature: Mapping[str, frozenset[str]],
    fabric: FabricPlan | None,
) -> tuple[PlanNode, ...]:
    """Return every declared node, in declared order. `by_feature`: feature -> names of the nodes that have it."""
    offsets = blocks(cluster)
    return tuple(_node(cluster, stack, domain, member, offsets[member.group], fabric, by_feature) for member in declared)


def _node(
    cluster: Cluster,
    stack: str,
    domain: str,
    member: DeclaredNode,
    block: int,
    fabric: FabricPlan | None,
    by_feature: Mapping[str, frozenset[str]],
) -> PlanNode:
    return PlanNode(
        name=member.name,
        group=member.group,
        index=member.index,
        roles=member.roles,
        fqdn=f"{member.name}.{domain}",
        **_place(cluster, stack, member, block),
        cpus=member.cpus,
        threads_per_core=member.threads_per_core,
        sockets=member.sockets,
        memory_mib=mebibytes(member.memory),
        gpus=_gpus(cluster, member.gpus),
        neuron_devices=_neuron_devices(cluster, member),
        os=cluster.target.os_of(member.name),
        architecture=member.architecture,
        features=tuple(part for part in PARTS if member.name in by_feature[part]),
        rack=member.rack or _rack(cluster.target, member.name),
        rails=fabric.rails_of(member.name, member.group) if fabric else (),
        state=member.state,
        reason=member.reason,
        until=member.until.isoformat() if member.until else None,
    )


def _place(cluster: Cluster, stack: str, member: DeclaredNode, block: int) -> dict[str, Any]:
    """Return the node's location: that of an existing machine, or the address from its group's block."""
    declared = cluster.target.location_of(member.name)
    if declared is not None:
        return {**declared._asdict(), "mac": None}
    own = {"address": str(address(cluster.network.cidr, block, member.index)), "mac": _mac(cluster, stack, member.name)}
    return {**own, "user": cluster.target.bootstrap_user, "ssh_port": SSH_PORT}


def _mac(cluster: Cluster, stack: str, name: str) -> str | None:
    """Return the MAC where rackwright creates the network card."""
    return mac(stack, name) if cluster.target.publishes_ports else None


def _rack(target: Target, name: str) -> str | None:
    """Return the rack that the machine's declaration names."""
    return target.machine_by_node[name].rack if isinstance(target, HostsTarget) else None


def _neuron_devices(cluster: Cluster, member: DeclaredNode) -> int:
    """Return the Neuron devices of the group's instance type."""
    type_ = cluster.target.instance_type_of(member.group)
    known = instance_types().get(type_) if type_ else None
    return known.neuron_devices if known else 0


def _gpus(cluster: Cluster, declared: Gpus | None) -> NodeGpu | None:
    if declared is None:
        return None
    known = catalog.gpus()[declared.model]
    is_nvidia = known.vendor == catalog.NVIDIA
    return NodeGpu(
        vendor="nvidia" if is_nvidia else "amd",
        model=declared.model,
        count=declared.count,
        product=known.product,
        memory_mib=known.memory_mib,
        driver=driver_version(cluster) if is_nvidia else None,
        architecture=known.architecture,
        modules=modules(cluster, declared) if is_nvidia else None,
        nvswitch=has_nvswitch(known, counts_by_model(declared)[declared.model]),
        simulated="gpu" in cluster.target.simulated,
        mig=tuple(tuple(MigInstance(profile=one.profile, start=one.start) for one in gpu) for gpu in layout(declared)),
        others=tuple(_other_gpu(one) for one in declared.others),
    )


def _other_gpu(declared: OtherGpus) -> OtherGpu:
    known = catalog.gpus()[declared.model]
    return OtherGpu(model=known.model, product=known.product, memory_mib=known.memory_mib, devices=tuple(sorted(declared.devices)))
