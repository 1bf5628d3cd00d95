"""Whether failures may be injected: the stack file must say so, and before each event there must be no objection."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rackwright.checks.cluster.probes.slurm import expand
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.chaos import ChaosPermission
from rackwright.operations.stack import require_valid
from rackwright.stackfile.load import find_stack_file

_BAD: Final = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "NOT_RESPONDING", "UNKNOWN", "ERROR"})
"""States and flags of a node that is not in service (sinfo(1), NODE STATE CODES)."""
_HAS_NODES: Final = "PENDING"


@dataclass(frozen=True)
class Observation:
    """What Slurm and the training run show at one time."""

    now: float
    error: str = ""
    """Why Slurm did not answer; empty if it did."""
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    jobs: Sequence[Mapping[str, str]] = ()

    def out_of_service(self) -> list[str]:
        """Return each node that takes no jobs, with its states."""
        return [
            f"{name} is {'+'.join(one['states'])}" + (f" ({one['reason']})" if one["reason"] else "")
            for name, one in sorted(self.nodes.items())
            if _BAD & set(one["states"])
        ]

    def is_registered_since(self, node: str, time: float) -> bool:
        """Return whether slurmd of a node started at a time or later. Slurm writes whole seconds."""
        return (self.nodes.get(node, {}).get("registered") or 0.0) >= int(time)

    def jobs_on(self, nodes: Collection[str]) -> list[Mapping[str, str]]:
        """Return the jobs that have one of these nodes."""
        held = [job for job in self.jobs if job["state"] != _HAS_NODES]
        return [job for job in held if set(expand(job["nodes"])) & set(nodes)]


@dataclass(frozen=True)
class Consent:
    """Whose jobs may be disturbed."""

    user: str
    """User of the demo: the first declared one."""
    everybody: bool = False
    """Whether other users' jobs may be disturbed, too (--include-jobs-of-users)."""


def require_allowed(stack: str) -> None:
    """Raise InputError unless the stack file allows failures."""
    _, cluster = require_valid(stack, lambda _finding: None)
    if cluster.chaos is not ChaosPermission.ALLOWED:
        file = find_stack_file(stack, paths.stacks())
        hint = f"add `chaos: allowed` to {file}: jobs of this stack may then lose ranks, nodes and time"
        raise InputError("failures may not be injected into this stack", path=f"stack {stack}", hint=hint)


def objections(seen: Observation, consent: Consent, nodes: Collection[str], open_events: Sequence[str]) -> list[str]:
    """Return the objections to an event that affects these nodes; empty means go.

    open_events: events that have not been undone.
    """
    found = [f"event {one} has not been undone" for one in open_events]
    if seen.error:
        return [*found, f"Slurm does not answer: {seen.error}"]
    found += seen.out_of_service()
    if not consent.everybody:
        others = [job for job in seen.jobs_on(nodes) if job["user"] != consent.user]
        found += [f"job {job['id']} of {job['user']} runs on {job['nodes']} (allow it with --include-jobs-of-users)" for job in others]
    return found
