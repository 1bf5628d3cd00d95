"""Budgets that can be changed and tagged, and whose subscribers can be queried."""

from __future__ import annotations

import json
from typing import Any

from moto.budgets.exceptions import NotFoundException
from moto.budgets.responses import BudgetsResponse

from standins.moto_server.store import put, shelf

_create = BudgetsResponse.create_budget


def install() -> None:
    """Complete moto's Budgets."""
    put(
        BudgetsResponse,
        create_budget,
        update_budget,
        describe_subscribers_for_notification,
        list_tags_for_resource,
        tag_resource,
        untag_resource,
    )


def create_budget(self: BudgetsResponse) -> str:
    """Implement CreateBudget, which records the tags."""
    answer = _create(self)
    arn = f"arn:aws:budgets::{self._get_param('AccountId')}:budget/{self._get_param('Budget')['BudgetName']}"
    shelf(self.backend, "tags")[arn] = {tag["Key"]: tag["Value"] for tag in self._get_param("ResourceTags", [])}
    return answer


def update_budget(self: BudgetsResponse) -> str:
    """Implement UpdateBudget."""
    new = self._get_param("NewBudget")
    self.backend.describe_budget(self._get_param("AccountId"), new["BudgetName"])
    self.backend.budgets[self._get_param("AccountId")][new["BudgetName"]].budget.update(new)
    return json.dumps({})


def describe_subscribers_for_notification(self: BudgetsResponse) -> str:
    """Implement DescribeSubscribersForNotification."""
    asked = self._get_param("Notification")
    budget = self.backend.budgets[self._get_param("AccountId")].get(self._get_param("BudgetName"))
    for notification in budget.notifications if budget else []:
        if all(notification.details.get(key) == value for key, value in asked.items()):
            return json.dumps({"Subscribers": notification.subscribers})
    raise NotFoundException(f"no such notification of {self._get_param('BudgetName')}")


def _tags(self: BudgetsResponse) -> dict[str, Any]:
    return shelf(self.backend, "tags").setdefault(self._get_param("ResourceARN"), {})


def list_tags_for_resource(self: BudgetsResponse) -> str:
    """Implement ListTagsForResource."""
    return json.dumps({"ResourceTags": [{"Key": key, "Value": value} for key, value in _tags(self).items()]})


def tag_resource(self: BudgetsResponse) -> str:
    """Implement TagResource."""
    _tags(self).update({tag["Key"]: tag["Value"] for tag in self._get_param("ResourceTags")})
    return json.dumps({})


def untag_resource(self: BudgetsResponse) -> str:
    """Implement UntagResource."""
    for key in self._get_param("ResourceTagKeys"):
        _tags(self).pop(key, None)
    return json.dumps({})
