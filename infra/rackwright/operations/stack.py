"""Loading and validation of a stack by name or path: the first step of every command that reads a stack file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from rackwright import rules
from rackwright.errors import InputError
from rackwright.inventory import paths, site_playbooks
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, has_errors
from rackwright.stackfile.load import Loaded, find_stack_file, load_stack, stack_name

if TYPE_CHECKING:
    from rackwright.impact import ClusterPlan
    from rackwright.plan import Plan


@dataclass(frozen=True)
class ValidatedStack:
    """A loaded stack file with all its findings."""

    loaded: Loaded
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether the stack file has no errors, so that `up` accepts it."""
        return self.loaded.cluster is not None and not has_errors(self.findings)


def load_and_validate(asked: str) -> ValidatedStack:
    """Load and validate a stack by name or path; raise InputError if the file does not exist."""
    file = find_stack_file(asked, paths.stacks())
    loaded = load_stack(file)
    return ValidatedStack(
        loaded,
        rules.check(loaded, date.today(), _neighbours(file), absent=site_playbooks.missing_site_files(loaded.cluster or loaded.rest)),
    )


def planned(asked: str) -> Plan:
    """Return the plan of a stack; raise InputError with all findings if it has errors. Print warnings on standard error."""
    return cluster_and_plan(asked).plan


def cluster_and_plan(asked: str) -> ClusterPlan:
    """Return a stack with its plan; raise InputError with all findings if it has errors. Print warnings on standard error."""
    stack, cluster = require_valid(asked)
    from rackwright.impact import ClusterPlan
    from rackwright.plan import expand

    return ClusterPlan(cluster, expand(cluster, stack))


def require_valid(asked: str) -> tuple[str, Cluster]:
    """Return name and description of a stack; raise InputError with all findings if it has errors. Print warnings on standard error."""
    judged = load_and_validate(asked)
    if judged.loaded.cluster is None or not judged.ok:
        raise InputError("\n".join(str(finding) for finding in judged.findings))
    show(judged.findings, to_stderr=True)
    return judged.loaded.stack, judged.loaded.cluster


def show(findings: Iterable[Finding], *, to_stderr: bool = False) -> None:
    """Print findings as `path: cause`, each followed by its hint."""
    for finding in findings:
        print(finding, file=sys.stderr if to_stderr else sys.stdout)


def _neighbours(file: Path) -> dict[str, Cluster]:
    """Return the other stacks of the same folder, without those that have errors."""
    others = {}
    for path in sorted(file.parent.glob("Pulumi.*.yaml")):
        other = load_stack(path) if path.name != file.name else None
        if other is not None and other.cluster is not None:
            others[stack_name(path)] = other.cluster
    return others
