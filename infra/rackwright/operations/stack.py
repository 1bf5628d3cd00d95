"""Loading and validation of a stack by name or path: the first step of every command that reads a stack file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rackwright import rules
from rackwright.errors import InputError
from rackwright.inventory import paths, site_playbooks
from rackwright.inventory.secret_files import secret_file_problems
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, has_errors
from rackwright.stackfile.load import LoadedStack, find_stack_file, load_stack, stack_name

if TYPE_CHECKING:
    from rackwright.impact import ClusterPlan
    from rackwright.plan import Plan

OnWarning = Callable[[Finding], None]
"""Receives each finding of a stack that has no errors."""


@dataclass(frozen=True)
class ValidatedStack:
    """A loaded stack file with all its findings."""

    loaded: LoadedStack
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return whether the stack file has no errors, so that `up` accepts it."""
        return self.loaded.cluster is not None and not has_errors(self.findings)


def load_and_validate(name_or_path: str) -> ValidatedStack:
    """Load and validate a stack by name or path; raise InputError if the file does not exist."""
    return validate(find_stack_file(name_or_path, paths.stacks()))


def validate(file: Path) -> ValidatedStack:
    """Load and validate a stack file."""
    loaded = load_stack(file)
    found = rules.check(
        loaded,
        date.today(),
        _other_stacks(file),
        missing_files=site_playbooks.missing_site_files(loaded.cluster or loaded.valid_subset),
        secret_problems=secret_file_problems(loaded.cluster or loaded.valid_subset),
    )
    return ValidatedStack(loaded, tuple(map(loaded.at_line, found)))


def load_plan(name_or_path: str, on_warning: OnWarning) -> Plan:
    """Return the plan of a stack and report its warnings; raise InputError with all findings if it has errors."""
    return cluster_and_plan(name_or_path, on_warning).plan


def cluster_and_plan(name_or_path: str, on_warning: OnWarning) -> ClusterPlan:
    """Return a stack with its plan and report its warnings; raise InputError with all findings if it has errors."""
    stack, cluster = require_valid(name_or_path, on_warning)
    from rackwright.impact import ClusterPlan
    from rackwright.plan import expand

    return ClusterPlan(cluster, expand(cluster, stack))


def require_valid(name_or_path: str, on_warning: OnWarning) -> tuple[str, Cluster]:
    """Return name and description of a stack and report its warnings; raise InputError with all findings if it has errors."""
    judged = load_and_validate(name_or_path)
    if judged.loaded.cluster is None or not judged.ok:
        raise InputError("\n".join(str(finding) for finding in judged.findings))
    for finding in judged.findings:
        on_warning(finding)
    return judged.loaded.stack, judged.loaded.cluster


def _other_stacks(file: Path) -> dict[str, Cluster]:
    """Return the other stacks of the same folder that have no errors."""
    others = {}
    for path in sorted(file.parent.glob("Pulumi.*.yaml")):
        if path.name == file.name or not path.is_file():
            continue
        try:
            status = path.stat()
            cluster = _cluster_of(path, (status.st_ino, status.st_ctime_ns, status.st_size))
        except (InputError, OSError):  # Another stack's file that cannot be read is no finding about this one.
            continue
        if cluster is not None:
            others[stack_name(path)] = cluster
    return others


@lru_cache(maxsize=256)
def _cluster_of(file: Path, version: tuple[int, ...]) -> Cluster | None:
    """Return the cluster of a stack file, None if it has errors; `version` are inode, time and size: an edited file is read again.

    Reading the other stacks takes most of the time of a validation; `rackwright cost --against` validates two.
    """
    return load_stack(file).cluster
