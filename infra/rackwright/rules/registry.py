"""The register of rules. A rule is a generator over a case: it complains as often as it likes and never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Final

from rackwright.catalog.members import Member, members
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity
from rackwright.model.groups import Role
from rackwright.model.kubernetes import Kubernetes
from rackwright.model.scheduler import Slurm


@dataclass(frozen=True)
class Case:
    """What rules judge."""

    cluster: Cluster
    stack: str
    today: date
    neighbours: Mapping[str, Cluster] = field(default_factory=dict)
    """Other stacks described beside this one, by name."""
    absent: frozenset[str] = frozenset()
    """Files of the project that the cluster names and that are not there; whoever reads the stack file has looked."""

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """All declared nodes."""
        return members(self.cluster)

    def having(self, role: Role) -> list[Member]:
        """All declared nodes with a role, also those that are out."""
        return [member for member in self.members if role in member.roles]

    @property
    def slurm(self) -> Slurm:
        """What is declared of Slurm; nothing of what its rules could complain about where another scheduler runs."""
        declared = self.cluster.scheduler
        return declared if isinstance(declared, Slurm) else Slurm(kind="slurm")

    @property
    def kubernetes(self) -> Kubernetes | None:
        """What is declared of Kubernetes; None where another scheduler runs."""
        declared = self.cluster.scheduler
        return declared if isinstance(declared, Kubernetes) else None

    @cached_property
    def node_names(self) -> frozenset[str]:
        """The names of all declared nodes."""
        return frozenset(member.name for member in self.members)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a rule says; its name and level are the rule's."""

    path: str
    cause: str
    hint: str = ""


Check = Callable[[Case], Iterator[Complaint]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule."""

    name: str
    level: Severity
    check: Check
    at_up: Severity | None = None
    """Its level where nodes are about to be made, if that is another one."""

    def findings(self, case: Case, *, at_up: bool = False) -> Iterator[Finding]:
        """What the rule finds in a case."""
        level = self.at_up if at_up and self.at_up is not None else self.level
        for complaint in self.check(case):
            yield Finding(level, self.name, complaint.path, complaint.cause, complaint.hint)


RULES: Final[dict[str, Rule]] = {}


def rule(name: str, level: Severity = Severity.ERROR, *, at_up: Severity | None = None) -> Callable[[Check], Check]:
    """Register a rule under a name that is its own; `at_up` is its level where nodes are about to be made."""

    def register(check: Check) -> Check:
        if name in RULES:
            raise ValueError(f"two rules are named {name}")
        RULES[name] = Rule(name, level, check, at_up)
        return check

    return register
