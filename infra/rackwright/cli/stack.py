"""From what a person typed to a judged description: the first step of every command that reads a stack file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from rackwright import rules
from rackwright.errors import BadInput
from rackwright.handover import paths, site
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, has_errors
from rackwright.model.load import Loaded, find_stack_file, load_stack, stack_name

if TYPE_CHECKING:
    from rackwright.plan import Plan
    from rackwright.plan.impact import Described


@dataclass(frozen=True)
class Judged:
    """A stack file with everything there is to say about it."""

    loaded: Loaded
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether `up` would accept it."""
        return self.loaded.cluster is not None and not has_errors(self.findings)


def judge(asked: str) -> Judged:
    """Load and judge a stack by name or path; BadInput when there is no such file."""
    file = find_stack_file(asked, paths.stacks())
    loaded = load_stack(file)
    return Judged(loaded, rules.check(loaded, date.today(), _neighbours(file), absent=site.absent(loaded.cluster or loaded.rest)))


def planned(asked: str) -> Plan:
    """The plan of a stack; BadInput with all findings when it has errors. Warnings go to stderr."""
    return described(asked).plan


def described(asked: str) -> Described:
    """A stack with its plan; BadInput with all findings when it has errors. Warnings go to stderr."""
    stack, cluster = accepted(asked)
    from rackwright.plan import expand
    from rackwright.plan.impact import Described

    return Described(cluster, expand(cluster, stack))


def accepted(asked: str) -> tuple[str, Cluster]:
    """Name and description of a stack without errors; BadInput with all findings otherwise. Warnings go to stderr."""
    judged = judge(asked)
    if judged.loaded.cluster is None or not judged.ok:
        raise BadInput("\n".join(str(finding) for finding in judged.findings))
    show(judged.findings, to_stderr=True)
    return judged.loaded.stack, judged.loaded.cluster


def show(findings: Iterable[Finding], *, to_stderr: bool = False) -> None:
    """Print findings as `path: cause`, each with its hint below."""
    for finding in findings:
        print(finding, file=sys.stderr if to_stderr else sys.stdout)


def _neighbours(file: Path) -> dict[str, Cluster]:
    """The other stacks in the stack's own folder; those with errors are somebody else's worry."""
    others = {}
    for path in sorted(file.parent.glob("Pulumi.*.yaml")):
        other = load_stack(path) if path.name != file.name else None
        if other is not None and other.cluster is not None:
            others[stack_name(path)] = other.cluster
    return others
