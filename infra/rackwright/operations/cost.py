"""The cost of a stack: what it bills per hour, what owned machines cost, and what the same GPUs cost elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.derive.cost import Cost
from rackwright.derive.cost import cost as derive_cost
from rackwright.derive.ownership_cost import OwnershipCost, RentalPrice, compute_ownership_cost, equivalent_instances
from rackwright.model.cluster import Cluster
from rackwright.operations.stack import OnWarning, require_valid


@dataclass(frozen=True, slots=True)
class StackCost:
    """The costs of one stack."""

    stack: str
    cluster: Cluster
    cost: Cost
    owned: OwnershipCost | None
    """Cost of owned machines; None if the stack file declares none."""
    rented: RentalPrice | None
    """Rented machines that owned ones are compared with; None without owned machines, or without a known price."""


def stack_cost(name_or_path: str, against: str | None, on_warning: OnWarning) -> StackCost:
    """Return the costs of a stack; owned machines are compared with the stack `against`, by default with the same GPUs on EC2.

    Raises InputError with all findings if one of the stack files has errors.
    """
    stack, cluster = require_valid(name_or_path, on_warning)
    cost, owned = derive_cost(cluster), compute_ownership_cost(cluster)
    return StackCost(stack, cluster, cost, owned, _rented(cluster, against, on_warning) if owned else None)


def _rented(cluster: Cluster, against: str | None, on_warning: OnWarning) -> RentalPrice | None:
    if against is None:
        return equivalent_instances(cluster)
    stack, other = require_valid(against, on_warning)
    there = derive_cost(other)
    return RentalPrice(
        f"stack {stack}", there.usd_per_hour, "sources: see its lines" if there.complete else "a price is missing: lower bound"
    )
