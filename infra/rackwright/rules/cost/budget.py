"""Limits of cost and lifetime: whether they can be enforced, on targets that bill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.catalog.fsx import DeploymentType
from rackwright.model.finding import Severity
from rackwright.model.targets.aws import CapacityBlock, Spot
from rackwright.model.units import format_seconds
from rackwright.rules.aws.fsx import deployment_of, lustres
from rackwright.rules.aws.groups import fleets
from rackwright.rules.registry import RuleContext, Violation, rule

_SHORTEST: Final = 30 * 60
"""Estimated duration of start, converge and checks of instances, never measured on AWS."""
_LONGEST: Final = 366 * 86400
"""Seconds of a leap year. Chosen: a longer lifetime is a typing error."""


@rule("budget-total-without-ttl")
def budget_total_without_ttl(case: RuleContext) -> Iterator[Violation]:
    """The total cost of a stack depends on its lifetime."""
    budget = case.cluster.budget
    if budget is not None and budget.max_usd_total is not None and budget.ttl is None:
        yield Violation(
            "budget.max_usd_total", "requires `ttl`: without an end, every total is exceeded", "add `ttl: 8h`, or use max_usd_per_hour"
        )


@rule("budget-ttl-short")
def budget_ttl_short(case: RuleContext) -> Iterator[Violation]:
    """The stack would be destroyed before it is ready."""
    budget = case.cluster.budget
    if budget is not None and budget.ttl is not None and budget.ttl < _SHORTEST:
        yield Violation(
            "budget.ttl", f"{format_seconds(budget.ttl)} expires before the cluster is ready", f"use at least {format_seconds(_SHORTEST)}"
        )


@rule("budget-ttl-long")
def budget_ttl_long(case: RuleContext) -> Iterator[Violation]:
    """A lifetime of years is no limit."""
    budget = case.cluster.budget
    if budget is not None and budget.ttl is not None and budget.ttl > _LONGEST:
        yield Violation("budget.ttl", f"{format_seconds(budget.ttl)} is more than a year", "omit it for no end")


@rule("budget-ttl-storage", Severity.WARNING)
def budget_ttl_storage(case: RuleContext) -> Iterator[Violation]:
    """The end of the lifetime deletes file systems too, and AWS deletes automatic backups with them."""
    budget = case.cluster.budget
    for path, declared in lustres(case) if budget is not None and budget.ttl is not None else ():
        exported = any(repository.exports for repository in declared.data_repositories)
        if deployment_of(declared) in {DeploymentType.PERSISTENT_1, DeploymentType.PERSISTENT_2} and not exported:
            cause = f"data on {declared.mount} is deleted after budget.ttl, although {declared.deployment_type} suggests persistence"
            yield Violation(f"{path}.deployment_type", cause, "use SCRATCH_2, export to a bucket, or remove `ttl`")


@rule("budget-alert")
def budget_alert(case: RuleContext) -> Iterator[Violation]:
    """The mail is sent at a share of the total."""
    budget = case.cluster.budget
    if budget is not None and budget.alert is not None and budget.max_usd_total is None:
        yield Violation("budget.alert", "has no effect without `max_usd_total`", "add `max_usd_total` and `ttl`, or remove `alert`")


@rule("budget-empty", Severity.WARNING)
def budget_empty(case: RuleContext) -> Iterator[Violation]:
    """A budget without a limit has no effect."""
    budget = case.cluster.budget
    if budget is not None and not (budget.max_usd_per_hour or budget.max_usd_total or budget.ttl or budget.alert):
        yield Violation("budget", "sets no limit", "add `max_usd_per_hour` or `ttl`, or remove it")


@rule("budget-not-applicable", Severity.WARNING)
def budget_not_applicable(case: RuleContext) -> Iterator[Violation]:
    """On targets without cost, limits have no effect, and give a false sense of safety when the file is copied."""
    if case.cluster.budget is not None and case.cluster.target.kind in ("lab", "vm"):
        yield Violation("budget", "nodes on this machine cost nothing", "remove it")


@rule("budget-price-unknown", Severity.WARNING)
def budget_price_unknown(case: RuleContext) -> Iterator[Violation]:
    """A limit cannot be enforced against an unknown price."""
    budget = case.cluster.budget
    if budget is None or not (budget.max_usd_per_hour or budget.max_usd_total):
        return
    for fleet in fleets(case):
        purchase = fleet.declared.capacity_type
        if isinstance(purchase, CapacityBlock) and purchase.offering is not None and purchase.usd_total is None:
            cause = "the budget cannot include the block: its price is unknown"
            yield Violation(f"{fleet.path}.capacity_type.usd_total", cause, "enter the price of the offering")
        elif fleet.type.price is None and not _states_price(purchase):
            yield Violation(
                f"{fleet.path}.type",
                f"the budget cannot include {fleet.type.name}: the catalogue has no list price",
                "add its cost by hand",
            )


def _states_price(purchase: object) -> bool:
    """Return whether the stack file states the price, or nothing else is billed."""
    return isinstance(purchase, CapacityBlock) or (isinstance(purchase, Spot) and purchase.expected_usd_per_hour is not None)


@rule("state-not-applicable", Severity.WARNING)
def state_not_applicable(case: RuleContext) -> Iterator[Violation]:
    """Only stacks that bill refuse a state on this machine."""
    if case.cluster.allow_local_state and not case.cluster.target.costs_money:
        yield Violation(
            "allow_local_state",
            f"has no effect: target {case.cluster.target.kind} is not billed, so local state is always permitted",
            "remove it",
        )
