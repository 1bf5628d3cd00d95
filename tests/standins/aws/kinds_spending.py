"""Cost control: budgets, and schedules that stop resources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import ResourceType, fill
from standins.aws.naming import Autoname
from standins.aws.state import Properties
from standins.aws.tags import Described, ListedTags, Tags

_BUDGET: Final = "aws:budgets/budget:Budget"
_SCHEDULE: Final = "aws:scheduler/schedule:Schedule"
_MOMENT: Final = "%Y-%m-%d_%H:%M"
"""Format of a budget's first and last day in the aws provider."""
_APART: Final = ("notifications", "limitAmount", "limitUnit", "timePeriodStart", "timePeriodEnd", "costFilters", "accountId")


def _budget(account: Account, inputs: Properties) -> dict[str, Any]:
    """Return a budget in the service's format."""
    rest = {key: value for key, value in inputs.items() if key not in (*_APART, "tags")}
    made = fill(account, KINDS[_BUDGET], "CreateBudget", rest, within="Budget")
    if "limitAmount" in inputs:
        made["BudgetLimit"] = {"Amount": str(inputs["limitAmount"]), "Unit": inputs.get("limitUnit", "USD")}
    period = {"Start": inputs.get("timePeriodStart"), "End": inputs.get("timePeriodEnd")}
    if any(period.values()):
        made["TimePeriod"] = {key: datetime.strptime(text, _MOMENT).replace(tzinfo=UTC) for key, text in period.items() if text}
    if inputs.get("costFilters"):
        made["CostFilters"] = {one["name"]: one["values"] for one in inputs["costFilters"]}
    return made


def _notification(given: Properties) -> dict[str, Any]:
    subscribers = [
        *({"SubscriptionType": "EMAIL", "Address": one} for one in given.get("subscriberEmailAddresses") or []),
        *({"SubscriptionType": "SNS", "Address": one} for one in given.get("subscriberSnsTopicArns") or []),
    ]
    told = {
        "NotificationType": given["notificationType"],
        "ComparisonOperator": given["comparisonOperator"],
        "Threshold": float(given["threshold"]),
        "ThresholdType": given["thresholdType"],
    }
    return {"Notification": told, "Subscribers": subscribers}


def _make_budget(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    number = inputs.get("accountId") or account.number
    account.call(
        "budgets",
        "CreateBudget",
        AccountId=number,
        Budget=_budget(account, inputs),
        NotificationsWithSubscribers=[_notification(one) for one in inputs.get("notifications") or []],
        **(kind.tags.at_creation(tags) if kind.tags else {}),
    )
    return f"{number}:{inputs['name']}"


def _named(ident: str) -> dict[str, str]:
    number, _, name = ident.partition(":")
    return {"AccountId": number, "BudgetName": name}


def _seen_budget(account: Account, ident: str, inputs: Properties) -> Described | None:
    named = _named(ident)
    found = account.call("budgets", "DescribeBudget", **named)["Budget"]
    told = account.call("budgets", "DescribeNotificationsForBudget", **named)["Notifications"]
    notifications = []
    for one in told:
        asked = {key: value for key, value in one.items() if key != "NotificationState"}
        subscribers = account.call("budgets", "DescribeSubscribersForNotification", **named, Notification=asked)["Subscribers"]
        notifications.append(
            {
                **asked,
                "SubscriberEmailAddresses": [to["Address"] for to in subscribers if to["SubscriptionType"] == "EMAIL"],
                "SubscriberSnsTopicArns": [to["Address"] for to in subscribers if to["SubscriptionType"] == "SNS"],
            }
        )
    return {**found, "Notifications": notifications}


def _budget_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    period, limit = described.get("TimePeriod") or {}, described.get("BudgetLimit") or {}
    return {
        "arn": account.arn("budgets", f"budget/{_named(ident)['BudgetName']}", region=""),
        "accountId": _named(ident)["AccountId"],
        "limitAmount": _amount(limit.get("Amount"), inputs.get("limitAmount")),
        "limitUnit": limit.get("Unit"),
        "timePeriodStart": _moment(period.get("Start")),
        "timePeriodEnd": _moment(period.get("End")),
        "costFilters": [{"name": name, "values": values} for name, values in (described.get("CostFilters") or {}).items()],
    }


def _amount(seen: str | None, given: str | None) -> str | None:
    """Return the declared amount if it is equal: the service adds zeros."""
    same = seen is not None and given is not None and float(seen) == float(given)
    return given if same else seen


def _moment(found: Any) -> str | None:
    return found.astimezone(UTC).strftime(_MOMENT) if found else None


def _set_budget(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    account.call("budgets", "UpdateBudget", AccountId=_named(ident)["AccountId"], NewBudget=_budget(account, news))


def _set_notifications(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    named = _named(ident)
    for one in account.call("budgets", "DescribeNotificationsForBudget", **named)["Notifications"]:
        account.call("budgets", "DeleteNotification", **named, Notification=one)
    for given in news.get("notifications") or []:
        account.call("budgets", "CreateNotification", **named, **_notification(given))


def _drop_budget(account: Account, ident: str, inputs: Properties) -> None:
    account.call("budgets", "DeleteBudget", **_named(ident))


def _make_schedule(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    account.call("scheduler", "CreateSchedule", **fill(account, kind, "CreateSchedule", inputs))
    return f"{inputs.get('groupName') or 'default'}/{inputs['name']}"


def _place(ident: str) -> dict[str, str]:
    group, _, name = ident.partition("/")
    return {"GroupName": group, "Name": name}


def _seen_schedule(account: Account, ident: str, inputs: Properties) -> Described | None:
    found: Described = account.call("scheduler", "GetSchedule", **_place(ident))
    return found


def _set_schedule(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    """Update the schedule; UpdateSchedule writes all its fields."""
    whole = {key: value for key, value in news.items() if key not in ("namePrefix", "region")}
    account.call("scheduler", "UpdateSchedule", **fill(account, KINDS[_SCHEDULE], "UpdateSchedule", whole))


def _drop_schedule(account: Account, ident: str, inputs: Properties) -> None:
    account.call("scheduler", "DeleteSchedule", **_place(ident))


_BUDGET_INPUTS: Final = (
    "budgetType", "costFilters", "costTypes", "limitAmount", "limitUnit", "timePeriodStart", "timePeriodEnd", "timeUnit", "plannedLimits",
)  # fmt: skip
_SCHEDULE_INPUTS: Final = (
    "flexibleTimeWindow", "scheduleExpression", "target", "actionAfterCompletion", "description", "endDate", "kmsKeyArn",
    "scheduleExpressionTimezone", "startDate", "state",
)  # fmt: skip

_ROWS: Final = (
    ResourceType(
        token=_BUDGET,
        service="budgets",
        make=_make_budget,
        look=_seen_budget,
        drop=_drop_budget,
        force=frozenset({"name", "namePrefix", "accountId"}),
        settle={**dict.fromkeys(_BUDGET_INPUTS, _set_budget), "notifications": _set_notifications},
        local=frozenset({"namePrefix"}),
        renames={"name": "BudgetName"},
        outs=_budget_outs,
        tags=ListedTags(
            "budgets",
            lambda ident, described: {"ResourceARN": f"arn:aws:budgets::{ident.replace(':', ':budget/', 1)}"},
            field="ResourceTags",
            keys="ResourceTagKeys",
            listing="ListTagsForResource",
        ),
        autoname=Autoname(longest=100),
    ),
    ResourceType(
        token=_SCHEDULE,
        service="scheduler",
        make=_make_schedule,
        look=_seen_schedule,
        drop=_drop_schedule,
        force=frozenset({"name", "namePrefix", "groupName"}),
        settle=dict.fromkeys(_SCHEDULE_INPUTS, _set_schedule),
        local=frozenset({"namePrefix"}),
        renames={},
        autoname=Autoname(longest=64),
    ),
)
KINDS: Final = {kind.token: kind for kind in _ROWS}
