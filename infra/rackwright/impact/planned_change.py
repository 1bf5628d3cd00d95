"""Consequences of an edit of the stack file, and the two descriptions from which they are derived."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeVar

from rackwright.model.cluster import Cluster
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.update_policy import UpdatePolicy
from rackwright.plan.schema import Plan, PlanNode
from rackwright.stackfile.diff import Edit, edits

_NAMED: Final = 6
"""Maximum number of names listed; of more, only the first and the last are shown."""
_CAUSES: Final = 3
"""Maximum number of causes in a line; more are counted. Chosen: a line of three causes fits a terminal of 140 columns."""
Key = TypeVar("Key", bound=Hashable)


class Action(StrEnum):
    """Kinds of consequences, the most disruptive first."""

    REFUSE = "refuse"
    DESTROY = "destroy"
    REPLACE = "replace"
    EXCLUDE = "exclude"
    DRAIN = "drain"
    REMOVE = "remove"
    RECABLE = "recable"
    """Manual work, not done by `up`."""
    RESTART = "restart"
    ADOPT = "adopt"
    RELOAD = "reload"
    ADD = "add"
    CHANGE = "change"
    KEEP = "keep"
    NOTE = "note"
    REAPPLY = "reapply"


DISRUPTIVE: Final = frozenset({Action.DESTROY, Action.REPLACE, Action.EXCLUDE})
"""Actions that end jobs or sessions, or delete data, without waiting for jobs."""


@dataclass(frozen=True)
class PlannedChange:
    """One action of `up`."""

    action: Action
    affected: tuple[str, ...]
    """Nodes, users, groups or file systems."""
    caused_by: tuple[str, ...]
    """Paths of the fields that were edited."""
    message: str
    hint: str = ""

    def __str__(self) -> str:
        shown = [*self.caused_by[:_CAUSES], *([f"and {len(self.caused_by) - _CAUSES} more"] if len(self.caused_by) > _CAUSES else [])]
        return self.message + (f" ({', '.join(shown)})" if shown else "") + (f"\n  {self.hint}" if self.hint else "")

    def to_data(self) -> dict[str, Any]:
        """Return the data that `impact --json` prints."""
        return {
            "action": self.action.value,
            "affected": list(self.affected),
            "caused_by": list(self.caused_by),
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster with its plan."""

    cluster: Cluster
    plan: Plan
    converged: bool = field(default=True, compare=False)
    """Whether the run that applied the plan succeeded."""


@dataclass(frozen=True)
class Transition:
    """Transition from the plan that was applied last to the current one."""

    old: ClusterPlan
    new: ClusterPlan

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """Return the edits of the stack file."""
        return edits(self.old.cluster, self.new.cluster)

    @cached_property
    def stay(self) -> tuple[tuple[PlanNode, PlanNode], ...]:
        """Return nodes of both plans, in their old and new form."""
        before = {node.name: node for node in self.old.plan.nodes}
        return tuple((before[node.name], node) for node in self.new.plan.nodes if node.name in before)

    @property
    def on_machines(self) -> bool:
        """Return whether nodes are existing machines: none of them is created or deleted."""
        return isinstance(self.new.cluster.target, HostsTarget)

    def why(
        self, *patterns: tuple[str, ...], changes: Iterable[UpdatePolicy] = UpdatePolicy, node: PlanNode | None = None
    ) -> tuple[str, ...]:
        """Return edits of the policies that match one of the patterns (all, without patterns) and concern the node."""
        wanted = set(changes)
        return tuple(
            str(edit)
            for edit in self.edits
            if edit.change in wanted
            and (not patterns or any(edit.within(*pattern) for pattern in patterns))
            and (node is None or self.concerns(edit, node))
        )

    def concerns(self, edit: Edit, node: PlanNode) -> bool:
        """Return whether the edited field concerns the node."""
        head, *rest = edit.path
        if head == "groups":
            return not rest or rest[0] == node.group
        if head == "nodes":
            return rest[:1] == [node.name]
        if head == "storage":
            return any(node.name in shared.servers for plan in (self.old.plan, self.new.plan) for shared in plan.storage)
        if head == "access":
            return any(node.name in plan.access.ports for plan in (self.old.plan, self.new.plan))
        if head == "target" and rest == ["jump_host"]:
            return self._through(self.old, node) != self._through(self.new, node)
        if head == "target" and len(rest) > 1:
            return rest[1] in (node.group, node.name, self._through(self.new, node))
        return True

    @staticmethod
    def _through(described: ClusterPlan, node: PlanNode) -> str | None:
        """Return the jump host of the node."""
        via = described.plan.target.jump_host
        return via if via != node.name else None


def named(names: Iterable[str]) -> str:
    """Return names as a list for a sentence, shortened if long.

    >>> named(["worker0", "worker1"])
    'worker0, worker1'
    """
    every = list(names)
    return ", ".join(every) if len(every) <= _NAMED else f"{every[0]} … {every[-1]} ({len(every)} of them)"


def alike(nodes: Iterable[PlanNode], key: Callable[[PlanNode], Key]) -> dict[Key, list[str]]:
    """Return names of nodes by key, so that one message covers all nodes of a key."""
    found: dict[Key, list[str]] = {}
    for node in nodes:
        found.setdefault(key(node), []).append(node.name)
    return found
