"""Targets: the Pulumi program's side. A target declares which resources a plan's nodes are made of, and returns their hosts.

Runs in the Pulumi program, for each `pulumi up` and preview. Declares resources and touches nothing: what a resource does when it is
created, read or deleted is in `rackwright.provider`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import pulumi

from rackwright.plan import Plan

_TARGETS = {
    "aws": "rackwright.targets.aws",
    "hosts": "rackwright.targets.hosts",
    "lab": "rackwright.targets.lab",
    "vm": "rackwright.targets.vm",
}


@dataclass(frozen=True)
class TargetResult:
    """The result of building a plan on a target: plain values where known, outputs where not."""

    hosts: dict[str, dict[str, Any]]
    """Each node's host record, by name."""
    sources: dict[str, pulumi.Input[str]] = field(default_factory=dict)
    """Mount sources of file systems that no node serves, by name."""
    bundle: pulumi.Input[str] | None = None
    """Folder on this machine with the Kubernetes bundle, for clusters without a repository."""
    host_keys: dict[str, pulumi.Input[str]] = field(default_factory=dict)
    """Private host keys that nodes get at their first converge, by node: those of nodes that cannot have them from the start."""
    network_revision: pulumi.Input[str] | None = None
    """A value that changes with every change and repair of a network that is a resource: the checks run again although no node changed."""


class Target(Protocol):
    """Interface of every target."""

    def build(self, plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
        """Create the plan's nodes as resources."""


def target(kind: str) -> Target:
    """Return the target of a kind."""
    return cast(Target, import_module(_TARGETS[kind]))
