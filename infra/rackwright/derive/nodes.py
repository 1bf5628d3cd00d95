"""The nodes that a cluster declares, with their group's and their own settings merged: the input of rules and of the plan.

The catalogue has the properties of an instance type; the stack file has all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from rackwright import catalog
from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Gpus, Group, NodeGpus, NodeOverride, Role, State, node_names_of, roles_of
from rackwright.model.scheduler.slurm import Partition
from rackwright.model.target import Target

_NOTHING: Final = NodeOverride()
SCHEDULABLE: Final = 0.95
"""Share of the memory of an instance type or machine: kernel and firmware reserve some, and Slurm drains a node that shows less than
configured (AWS ParallelCluster configuration reference: SchedulableMemory, 95 % of what EC2 lists; University of Delaware, Caviness,
2019-02-18: `Low RealMemory` on all nodes with the nominal 131072 MiB, of which they showed 128813)."""


@dataclass(frozen=True)
class DeclaredNode:
    """One declared node."""

    name: str
    group: str
    index: int
    roles: tuple[Role, ...]
    cpus: int
    threads_per_core: int | None
    """None where the stack file does not declare it."""
    sockets: int | None
    """None where the stack file does not declare it."""
    memory: int
    """Bytes."""
    gpus: Gpus | None
    architecture: str
    """Processor architecture: x86_64 or arm64."""
    rack: str | None
    state: State
    reason: str | None
    until: date | None

    @property
    def is_in(self) -> bool:
        """Return whether the node takes part in phases and checks."""
        return self.state is State.IN


def members(cluster: Cluster) -> tuple[DeclaredNode, ...]:
    """Return all declared nodes in declared order, nodes that are out included."""
    return tuple(_members(cluster))


def _members(cluster: Cluster) -> Iterator[DeclaredNode]:
    for name, group in cluster.groups.items():
        roles = roles_of(name, group)
        type_ = cluster.target.instance_type_of(name)
        known = instance_types().get(type_) if type_ else None
        for index, node in enumerate(node_names_of(name, group)):
            yield _member(cluster, name, _fitted(group, known), roles, (index, node), known)


def members_of_partition(nodes: Iterable[DeclaredNode], partition: Partition) -> list[DeclaredNode]:
    """Return the nodes of a partition, by group or by name."""
    return [node for node in nodes if node.group in partition.groups or node.name in partition.nodes]


def schedulable_memory(target: Target, declared: int) -> int:
    """Return the memory that Slurm may give to jobs of a node with so much declared memory, in the same unit.

    Existing machines show less than they have. Other targets create their nodes so that they show what is declared.
    """
    return int(declared * SCHEDULABLE) if target.kind == "hosts" else declared


def _fitted(group: Group, known: InstanceType | None) -> Group:
    """Return the group with the properties of its instance type where the stack file has none."""
    if known is None:
        return group
    gpus = Gpus(model=known.gpu_model, count=known.gpu_count) if known.gpu_model else None
    own = {
        "cpus": group.cpus or known.cpus_with(group.threads_per_core),
        "memory": group.memory or int(known.memory_mib * SCHEDULABLE) * 2**20,
        "gpus": group.gpus or gpus,
    }
    return group.model_copy(update=own)


def _member(
    cluster: Cluster, group_name: str, group: Group, roles: tuple[Role, ...], place: tuple[int, str], type_: InstanceType | None
) -> DeclaredNode:
    index, name = place
    own = cluster.nodes.get(name, _NOTHING)
    gpus = merge_gpus(group.gpus, own.gpus)
    return DeclaredNode(
        name=name,
        group=group_name,
        index=index,
        roles=roles,
        cpus=own.cpus or group.cpus or cluster.target.default_cpus,
        threads_per_core=group.threads_per_core,
        sockets=group.sockets,
        memory=own.memory or group.memory or cluster.target.default_memory,
        gpus=gpus,
        architecture=type_.architecture if type_ else cluster.target.architecture_of(name) or _architecture(cluster, gpus),
        rack=own.rack or group.rack,
        state=own.state,
        reason=own.reason,
        until=own.until,
    )


def _architecture(cluster: Cluster, gpus: Gpus | None) -> str:
    """Return the processor architecture of an undeclared machine: that of its GPU model, unless it is simulated, else x86_64."""
    known = catalog.gpus().get(gpus.model) if gpus and "gpu" not in cluster.target.simulated else None
    return known.host if known and known.host else "x86_64"


def merge_gpus(group: Gpus | None, own: NodeGpus | None) -> Gpus | None:
    """Return the group's GPUs with the node's own settings, or None when none is left."""
    if own is None:
        merged = group
    else:
        model = own.model or (group.model if group else None)
        count = own.count if own.count is not None else (group.count if group else 0)
        others = own.others if own.others is not None else (group.others if group else ())
        merged = Gpus(model=model, count=count, mig=group.mig if group else None, others=others) if model else None
    return merged if merged is not None and merged.count > 0 else None
