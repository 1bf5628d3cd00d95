"""Targets: where a plan's nodes come from. Each turns a plan into hosts, as Pulumi resources."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

import pulumi

from rackwright.plan import Plan

_TARGETS = {"hosts": "rackwright.targets.hosts", "lab": "rackwright.targets.lab"}


class Target(Protocol):
    """What every target offers."""

    def build(self, plan: Plan, access_key: pulumi.Input[str]) -> dict[str, dict[str, Any]]:
        """Each node's host record, by name: plain values where known, outputs where not."""


def target(kind: str) -> Target:
    """The target of that kind."""
    return cast(Target, import_module(_TARGETS[kind]))
