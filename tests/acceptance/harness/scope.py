"""Which nodes a phase is about, and what becomes of checks on the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from acceptance.phase import Part
from cluster.probes import smoke
from rackwright.errors import BadInput
from rackwright.report.declared import Declared
from rackwright.report.verdict import SkipReason, Verdict


@dataclass(frozen=True)
class Submission:
    """Where jobs are sent from, in whose name, and the shared file system that they may write to."""

    declared: Declared
    name: str
    user: str
    mount: str | None

    @property
    def node(self) -> Mapping[str, Any]:
        """The node's record."""
        return self.declared.nodes[self.name]

    @property
    def compute(self) -> tuple[str, ...]:
        """All nodes of the plan that run jobs and are not out."""
        return tuple(node["name"] for node in self.declared.cluster["scheduler"]["nodes"] if node["name"] in self.declared.nodes)

    def parts(self, idle: tuple[str, ...]) -> tuple[Part, ...]:
        """Pieces of the idle nodes that one job can span."""
        found = []
        for part in smoke.parts(self):
            nodes = tuple(name for name in part["nodes"] if name in idle)
            if nodes:
                found.append(Part(part["partition"] + ("" if part["first"] else "-cpu"), nodes))
        return tuple(found)


def submission(declared: Declared, user: str | None) -> Submission:
    """From the plan; raises BadInput where jobs cannot be sent by an ordinary user."""
    if (declared.cluster.get("scheduler") or {}).get("kind") != "slurm":
        raise BadInput(
            "has no scheduler that jobs could be sent to", path=f"stack {declared.stack}", hint="declare `scheduler: {kind: slurm}`"
        )
    senders = declared.members("@submit")
    if not senders:
        raise BadInput("has no node that jobs are sent from", path=f"stack {declared.stack}", hint="give a group the role `login`")
    name = user or smoke.runner(Submission(declared, senders[0], "", None))
    if name is None:
        raise BadInput(
            "has no user: jobs of the acceptance run as one", path=f"stack {declared.stack}", hint="declare one, or name one with --user"
        )
    storage = smoke.shared(Submission(declared, senders[0], name, None))
    return Submission(declared, senders[0], name, storage["mount"] if storage else None)


def idle(states: Mapping[str, str], compute: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes that are free and answer: a suffix to the word means that something is with them (`man sinfo`, NODE STATE CODES).

    >>> idle({"a": "idle none", "b": "idle* Not responding", "c": "mixed none"}, ("a", "b", "c"))
    ('a',)
    """
    return tuple(name for name in compute if states.get(name, "?").split()[0] == "idle")


def absent(states: Mapping[str, str], node: str, busy: Collection[str]) -> tuple[Verdict, str]:
    """What to say of a check on a node that no job was sent to. `busy`: who was at work before the run began.

    One that was free then and does not end its last job has most likely had that job from the run: it is not excused for it.
    """
    state = states.get(node, "the scheduler does not know it")
    if smoke.at_work(state) and (node in busy or not state.startswith("completing")):
        return Verdict.SKIPPED, SkipReason.NODE_BUSY.value
    return Verdict.UNKNOWN, f"node not usable: {state.removesuffix(' none')}"
