"""Targets: where a plan's nodes come from. Each turns a plan into hosts, as Pulumi resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import pulumi

from rackwright.plan import Plan

_TARGETS = {"aws": "rackwright.targets.aws", "hosts": "rackwright.targets.hosts", "lab": "rackwright.targets.lab"}


@dataclass(frozen=True)
class TargetResult:
    """What a target made of a plan: plain values where known, outputs where not."""

    hosts: dict[str, dict[str, Any]]
    """Each node's host record, by name."""
    sources: dict[str, pulumi.Input[str]] = field(default_factory=dict)
    """What clients mount of file systems that no node serves, by name."""
    bundle: pulumi.Input[str] | None = None
    """Folder on this machine of what Kubernetes needs where no repository answers."""
    host_keys: dict[str, pulumi.Input[str]] = field(default_factory=dict)
    """Private host keys that nodes are given when they are first converged, by node: those that cannot have them from the start."""


class Target(Protocol):
    """What every target offers."""

    def build(self, plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
        """The plan's nodes, as resources."""


def target(kind: str) -> Target:
    """The target of that kind."""
    return cast(Target, import_module(_TARGETS[kind]))
