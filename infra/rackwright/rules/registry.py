"""The register of rules. A rule is a generator over a case: it yields any number of violations and never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Final

from rackwright.derive.nodes import DeclaredNode, members
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity
from rackwright.model.groups import Role
from rackwright.model.scheduler.kubernetes import Kubernetes
from rackwright.model.scheduler.slurm import Slurm


@dataclass(frozen=True)
class RuleContext:
    """Input of a validation rule."""

    cluster: Cluster
    stack: str
    today: date
    other_stacks: Mapping[str, Cluster] = field(default_factory=dict)
    """Other stacks described beside this one, by name."""
    missing_files: frozenset[str] = frozenset()
    """Files that the cluster names and that do not exist; determined by the reader of the stack file."""
    secret_problems: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with files that hold secrets, by their path in the stack file; determined by the reader of the stack file."""

    @cached_property
    def members(self) -> tuple[DeclaredNode, ...]:
        """Return all declared nodes."""
        return members(self.cluster)

    def with_role(self, role: Role) -> list[DeclaredNode]:
        """Return all declared nodes with a role, including nodes that are out."""
        return [member for member in self.members if role in member.roles]

    @property
    def is_runner(self) -> bool:
        """Return whether the stack is no cluster, but one or more runners of CI; another rule refuses a mixture."""
        return bool(self.with_role(Role.RUNNER))

    @property
    def slurm(self) -> Slurm:
        """Return the declaration of Slurm; an empty one if the cluster has another scheduler."""
        declared = self.cluster.scheduler
        return declared if isinstance(declared, Slurm) else Slurm(kind="slurm")

    @property
    def kubernetes(self) -> Kubernetes | None:
        """Return the declaration of Kubernetes; None if the cluster has another scheduler."""
        declared = self.cluster.scheduler
        return declared if isinstance(declared, Kubernetes) else None

    @cached_property
    def node_names(self) -> frozenset[str]:
        """Return the names of all declared nodes."""
        return frozenset(member.name for member in self.members)


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of a rule, which supplies name and level."""

    path: str
    cause: str
    hint: str = ""


Check = Callable[[RuleContext], Iterator[Violation]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule."""

    name: str
    level: Severity
    check: Check
    level_on_deploy: Severity | None = None
    """Level during `up`, if it differs."""

    def findings(self, case: RuleContext, *, at_up: bool = False) -> Iterator[Finding]:
        """Yield the rule's findings in a case."""
        level = self.level_on_deploy if at_up and self.level_on_deploy is not None else self.level
        for complaint in self.check(case):
            yield Finding(level, self.name, complaint.path, complaint.cause, complaint.hint)


RULES: Final[dict[str, Rule]] = {}


def rule(name: str, level: Severity = Severity.ERROR, *, level_on_deploy: Severity | None = None) -> Callable[[Check], Check]:
    """Register a rule under a unique name; `level_on_deploy` is its level during `up`."""

    def register(check: Check) -> Check:
        if name in RULES:
            raise ValueError(f"two rules are named {name}")
        RULES[name] = Rule(name, level, check, level_on_deploy)
        return check

    return register
