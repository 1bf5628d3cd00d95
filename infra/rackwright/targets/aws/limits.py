"""The time to live of a stack, and the alert when its cost exceeds the budget."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from rackwright.model.budget import Budget
from rackwright.targets.aws.account import STACK_TAG, StackContext
from rackwright.targets.aws.identity import assumed_by
from rackwright.targets.aws.nodes import NodeInstance
from rackwright.targets.aws.storage import SharedStorage
from rackwright.targets.resources import StaticTime

_TOLD_AT: Final = 80
"""Percent of the budget."""
_SDK: Final = "arn:aws:scheduler:::aws-sdk"
"""EventBridge Scheduler's universal target: any API call (EventBridge Scheduler user guide: Using universal targets)."""


def limits(site: StackContext, made: Mapping[str, NodeInstance], shared: Mapping[str, SharedStorage]) -> None:
    """Create a budget with its alert, and a schedule that deletes the costliest resources.

    `rackwright destroy-expired` deletes the rest.
    """
    budget = site.plan.budget
    if budget is None:
        return
    if budget.max_usd_total is not None:
        _watch(site, budget, budget.max_usd_total)
    if budget.ttl is not None:
        _end(site, budget.ttl, made, shared)


def _watch(site: StackContext, budget: Budget, most: float) -> None:
    told = aws.budgets.BudgetNotificationArgs(
        comparison_operator="GREATER_THAN",
        notification_type="ACTUAL",
        threshold=_TOLD_AT,
        threshold_type="PERCENTAGE",
        subscriber_email_addresses=[budget.alert] if budget.alert else [],
    )
    aws.budgets.Budget(
        "budget",
        name=f"rackwright-{site.plan.stack}",
        budget_type="COST",
        limit_amount=f"{most:g}",
        limit_unit="USD",
        time_unit="MONTHLY",
        cost_filters=[aws.budgets.BudgetCostFilterArgs(name="TagKeyValue", values=[f"user:{STACK_TAG}${site.plan.stack}"])],
        notifications=[told] if budget.alert else [],
        tags=site.tags,
        opts=site.options(),
    )


def _end(site: StackContext, ttl: int, made: Mapping[str, NodeInstance], shared: Mapping[str, SharedStorage]) -> None:
    """Create the calls that AWS makes at the end of the time to live, also if the machine that runs rackwright is off."""
    born = StaticTime("born")
    ends = born.at.apply(lambda at: (datetime.fromisoformat(at) + timedelta(seconds=ttl)).strftime("%Y-%m-%dT%H:%M:%S"))
    pulumi.export("expires", ends)
    role = _may_end(site)
    for name, node in made.items():
        # One call for each: EC2 rejects the whole list if one instance of it, a reclaimed spot instance, does not exist.
        _schedule(site, f"end-{name}", ends, role, "ec2:terminateInstances", node.instance.id.apply(lambda id_: {"InstanceIds": [id_]}))
    for name, file_system in shared.items():
        doomed = file_system.made.id.apply(lambda id_: {"FileSystemId": id_})
        _schedule(site, f"end-file-system-{name}", ends, role, "fsx:deleteFileSystem", doomed)


def _may_end(site: StackContext) -> aws.iam.Role:
    role = aws.iam.Role("end", assume_role_policy=assumed_by("scheduler.amazonaws.com"), tags=site.named("end"), opts=site.options())
    mine = {"StringEquals": {f"aws:ResourceTag/{STACK_TAG}": site.plan.stack}}
    actions = ["ec2:TerminateInstances", "fsx:DeleteFileSystem"]
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*", "Condition": mine}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, sort_keys=True)
    aws.iam.RolePolicy("end-rights", role=role.name, policy=policy, opts=site.options())
    return role


def _schedule(
    site: StackContext, name: str, ends: pulumi.Output[str], role: aws.iam.Role, call: str, arguments: pulumi.Output[dict[str, Any]]
) -> None:
    target = aws.scheduler.ScheduleTargetArgs(arn=f"{_SDK}:{call}", role_arn=role.arn, input=arguments.apply(json.dumps))
    aws.scheduler.Schedule(
        name,
        flexible_time_window=aws.scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
        schedule_expression=ends.apply(lambda at: f"at({at})"),
        schedule_expression_timezone="UTC",
        target=target,
        opts=site.options(),
    )
