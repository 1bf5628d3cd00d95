"""The nodes that a phase covers, and the results of checks on the other nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rackwright.checks.acceptance.phase import Part, compute_nodes, runs_pods
from rackwright.checks.cluster.probes import slurm_states, smoke
from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory
from rackwright.report.verdict import SkipReason, Verdict


@dataclass(frozen=True)
class SubmitHost:
    """The node and the user that submit jobs, and the shared file system to which the user may write."""

    declared: Inventory
    name: str
    user: str
    mount: str | None
    namespace: str | None = None
    """Namespace of Kubernetes in which the user's jobs run."""

    @property
    def node(self) -> Mapping[str, Any]:
        """Return the node's record."""
        return self.declared.nodes[self.name]

    @property
    def compute(self) -> tuple[str, ...]:
        """Return all nodes of the plan that run jobs and are not out."""
        return compute_nodes(self.declared)

    @property
    def max_gpus(self) -> int | None:
        """Return the number of GPUs that the namespace's quota allows all jobs together."""
        found = next((one for one in self.declared.cluster["scheduler"].get("namespaces", ()) if one["name"] == self.namespace), None)
        return found["gpus"] if found else None

    def parts(self, idle: tuple[str, ...]) -> tuple[Part, ...]:
        """Return parts of the idle nodes, each of which one job can span."""
        if runs_pods(self.declared):
            return _alike(self.declared, idle)
        found = []
        for part in smoke.parts(self):
            nodes = tuple(name for name in part["nodes"] if name in idle)
            if nodes:
                found.append(Part(part["partition"] + ("" if part["first"] else "-cpu"), nodes))
        return tuple(found)


def find_submit_host(declared: Inventory, user: str | None) -> SubmitHost:
    """Return the submission of the plan; raises InputError if an ordinary user cannot submit jobs."""
    if not declared.cluster.get("scheduler"):
        raise InputError("has no scheduler to submit jobs to", path=f"stack {declared.stack}", hint="declare `scheduler: {kind: slurm}`")
    senders = declared.members("@submit")
    if not senders:
        raise InputError("has no node to submit jobs from", path=f"stack {declared.stack}", hint="give a group the role `login`")
    if runs_pods(declared):
        return _in_namespace(declared, senders[0], user)
    name = user or smoke.runner(SubmitHost(declared, senders[0], "", None))
    if name is None:
        raise InputError("has no user to run the acceptance jobs as", path=f"stack {declared.stack}", hint="declare a user, or pass --user")
    storage = smoke.shared(SubmitHost(declared, senders[0], name, None))
    return SubmitHost(declared, senders[0], name, storage["mount"] if storage else None)


def _in_namespace(declared: Inventory, sender: str, user: str | None) -> SubmitHost:
    """Return the submission of a user of Kubernetes: of his namespaces the one with a claim, then the one with most GPUs."""
    spaces = [one for one in declared.cluster["scheduler"]["namespaces"] if one["users"]]
    name = user or next((who for one in spaces for who in one["users"]), None)
    his = [one for one in spaces if name in one["users"]]
    if name is None or not his:
        known = ", ".join(sorted({who for one in spaces for who in one["users"]}))
        raise InputError(
            "belongs to no namespace to run the acceptance jobs in",
            path=f"user {name}" if name else f"stack {declared.stack}",
            hint=f"pass --user with one of {known}" if known else "declare `scheduler.namespaces` with `users`",
        )
    space = max(his, key=lambda one: (one["claim_mib"] is not None, one["gpus"] is None, one["gpus"] or 0))
    storage = next(iter(declared.cluster.get("storage") or ()), None)
    folders = [one["path"] for one in declared.cluster["scheduler"]["folders"] if one["path"].endswith(f"/{space['name']}")]
    reached = storage is not None and {sender, *compute_nodes(declared)} <= set(storage["clients"])
    mount = folders[0] if folders and reached and space["claim_mib"] is not None else None
    return SubmitHost(declared, sender, name, mount, str(space["name"]))


def _alike(declared: Inventory, idle: tuple[str, ...]) -> tuple[Part, ...]:
    """Return the nodes that one job of Kubernetes can span: those with GPUs apart from those without."""
    gpus = {one["name"]: bool(one["gpus"]) for one in declared.cluster["scheduler"]["nodes"]}
    found = {name: tuple(node for node in idle if gpus[node] is wanted) for name, wanted in (("gpu", True), ("cpu", False))}
    return tuple(Part(name, nodes) for name, nodes in found.items() if nodes)


def idle(states: Mapping[str, str], compute: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes that are idle and respond: a suffix to the state means that the node is not usable (`man sinfo`, NODE STATE CODES).

    >>> idle({"a": "idle none", "b": "idle* Not responding", "c": "mixed none"}, ("a", "b", "c"))
    ('a',)
    """
    return tuple(name for name in compute if states.get(name, "?").split()[0] == "idle")


def absent(states: Mapping[str, str], node: str, busy: Collection[str]) -> tuple[Verdict, str]:
    """Return the verdict and reason for a check on a node to which no job was submitted. `busy`: nodes at work before the run began.

    A node that was idle then and does not end its last job most likely runs a job of this run: it is not excused.
    """
    state = states.get(node, "unknown to the scheduler")
    if slurm_states.at_work(state) and (node in busy or not state.startswith("completing")):
        return Verdict.SKIPPED, SkipReason.NODE_BUSY.value
    return Verdict.UNKNOWN, f"node not usable: {state.removesuffix(' none')}"
