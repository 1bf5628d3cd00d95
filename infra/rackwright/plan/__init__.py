"""The plan: a cluster without rule errors, expanded to plain data with every name, address, volume, group and cable.

One document, made by `expand` from the functions of `rackwright.derive`. Pure and deterministic; printed by `rackwright plan`, recorded by
`up`, and read by targets, inventory and impact.
"""

from rackwright.plan.expand import expand
from rackwright.plan.schema import Access, NodeGpu, Plan, PlanNode, Storage, User, Volume
from rackwright.plan.slurm.schema import Partition, Slurm

__all__ = ["Access", "NodeGpu", "Partition", "Plan", "PlanNode", "Slurm", "Storage", "User", "Volume", "expand"]
