"""cluster -> plan: names, addresses, volumes, groups, cost. Pure, deterministic, printable."""

from rackwright.plan.expand import expand
from rackwright.plan.schema import Access, NodeGpu, Partition, Plan, PlanNode, Slurm, Storage, User, Volume

__all__ = ["Access", "NodeGpu", "Partition", "Plan", "PlanNode", "Slurm", "Storage", "User", "Volume", "expand"]
