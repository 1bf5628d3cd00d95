"""What nodes carry beside the cluster's own services, and which nodes: one inventory group for each part."""

from __future__ import annotations

from typing import Final

from rackwright.catalog.members import Member
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.plan.shape import NodeStack

PARTS: Final = ("tuning",)
"""Every part that can be asked for; its group is `with_<part>`."""


def expand_node_stack(cluster: Cluster) -> NodeStack:
    """What was asked for, of what the target lets a role do."""
    return NodeStack(tuning=cluster.tuning if cluster.target.owns_kernel else None)


def carried(cluster: Cluster, member: Member) -> tuple[str, ...]:
    """The parts that a node carries."""
    wanted = expand_node_stack(cluster)
    chosen = {"tuning": wanted.tuning is not None and _computes(member, wanted.tuning.groups)}
    return tuple(part for part in PARTS if chosen[part])


def _computes(member: Member, groups: tuple[str, ...]) -> bool:
    """Whether the node is of these groups, or runs jobs where none is named."""
    return member.group in groups if groups else Role.WORKER in member.roles
