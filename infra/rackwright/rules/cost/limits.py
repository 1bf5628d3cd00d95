"""Cost of the stack compared with its budget, and the cost figures of owned machines."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.derive.cost import Cost, cost
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.units import format_seconds
from rackwright.rules.registry import RuleContext, Violation, rule


@rule("budget-per-hour")
def budget_per_hour(case: RuleContext) -> Iterator[Violation]:
    """The hourly cost of the stack must not exceed the budget."""
    budget = case.cluster.budget
    if budget is None or budget.max_usd_per_hour is None:
        return
    costs = cost(case.cluster)
    if costs.usd_per_hour > budget.max_usd_per_hour:
        yield Violation(
            "budget.max_usd_per_hour",
            f"the stack costs {_sum(costs, costs.usd_per_hour)} per hour, more than the limit of {budget.max_usd_per_hour:g}",
            f"run `rackwright cost {case.stack}` to list the items; reduce the most expensive ones, or increase the limit",
        )


@rule("budget-total")
def budget_total(case: RuleContext) -> Iterator[Violation]:
    """The total cost must not exceed the budget: upfront payments, and every hour of the lifetime."""
    budget = case.cluster.budget
    if budget is None or budget.max_usd_total is None:
        return
    costs = cost(case.cluster)
    total = costs.total((budget.ttl or 0) / 3600)
    if total > budget.max_usd_total:
        life = f"in {format_seconds(budget.ttl)}" if budget.ttl else "up front"
        yield Violation(
            "budget.max_usd_total",
            f"the stack costs {_sum(costs, total)} {life}, more than the limit of {budget.max_usd_total:g}",
            f"run `rackwright cost {case.stack}` to list the items; shorten `ttl`, reduce items, or increase the limit",
        )


@rule("economics-group")
def economics_group(case: RuleContext) -> Iterator[Violation]:
    """Machine costs are declared by group."""
    ownership = case.cluster.target.ownership_cost if isinstance(case.cluster.target, HostsTarget) else None
    for group in ownership.machines if ownership else ():
        if group not in case.cluster.groups:
            path = f"target.ownership_cost.machines.{group}"
            yield Violation(path, f"there is no group `{group}`", did_you_mean(group, case.cluster.groups))


@rule("economics-missing", Severity.WARNING)
def economics_missing(case: RuleContext) -> Iterator[Violation]:
    """A group without figures would count as free."""
    ownership = case.cluster.target.ownership_cost if isinstance(case.cluster.target, HostsTarget) else None
    for name, group in case.cluster.groups.items() if ownership else ():
        if ownership is not None and group.count and name not in ownership.machines:
            path = "target.ownership_cost.machines"
            yield Violation(path, f"group {name} is missing: its cost counts as zero", f"add `{name}: {{price_usd: …, watts: …}}`")


def _sum(costs: Cost, usd: float) -> str:
    return f"{'' if costs.complete else 'at least '}{usd:.2f} USD"
