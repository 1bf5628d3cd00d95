"""The search for a culprit on the cluster: each round of group tests is a set of jobs on idle nodes, run as those of a phase are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rackwright.checks.acceptance.bisection.collective import Collective, choose_collective, figure_of
from rackwright.checks.acceptance.bisection.group_test import Figure, GroupTest
from rackwright.checks.acceptance.bisection.search import search
from rackwright.checks.acceptance.bisection.verdict import CHECK, PHASE, TITLE, as_document, findings
from rackwright.checks.acceptance.harness.node_scope import absent
from rackwright.checks.acceptance.harness.phase_run import PhaseContext, PhaseResult, run_phase
from rackwright.checks.acceptance.phase import Finding, Job, Output, Outputs, Phase, PhaseScope, runs_pods, unknown
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.reader import Inventory

_NAMED: Final = 4
"""Most nodes of a group that a line of progress names."""
Announce = Callable[[str], None]


@dataclass
class Bisection:
    """A search in progress: the jobs of its rounds, together one phase of the run."""

    context: PhaseContext
    number: int
    announce: Announce
    outcome: PhaseResult = field(default_factory=PhaseResult)
    collective: Collective | None = None
    rounds: int = 0

    def run(self) -> Mapping[str, Any] | None:
        """Search, with the results in `outcome`; return the document of the search, None if it never began."""
        scope = self._run(())
        if scope is None:
            return None
        self.collective, space = choose_collective(scope)
        self.announce(f"bisection: {self.collective.title}, {len(space.nodes)} nodes")
        result = search(space, self.measure, self.collective.expected)
        self.outcome.findings = list(findings(result, space, self.collective))
        self.outcome.findings += _without_network(scope, space.nodes)
        left = {node: reason for node in scope.compute if node not in space.nodes and (reason := _why_left(scope, node))}
        return as_document(result, space, self.collective, left, scope.declared.stack)

    def measure(self, tests: Sequence[GroupTest]) -> Sequence[Figure]:
        """Run one round."""
        assert self.collective is not None
        self.rounds += 1
        self.announce(f"bisection round {self.rounds}: {' | '.join(map(_shown, tests))}")
        jobs = {f"r{self.rounds:02d}-g{place}": test for place, test in enumerate(tests, start=1)}
        self._run([self.collective.job(test, name) for name, test in jobs.items()])
        return [self._figure(name, test) for name, test in jobs.items()]

    def _figure(self, name: str, test: GroupTest) -> Figure:
        assert self.collective is not None
        output: Output | None = self.outcome.outputs.get(name)
        if output is None:
            raise UndeterminedError(self.outcome.reason or f"job {name} was not submitted")
        return figure_of(self.collective, test, output)

    def _run(self, jobs: Sequence[Job]) -> PhaseScope | None:
        """Run jobs as a phase does and add them to the outcome; return its scope."""
        ended = PhaseResult()
        stored = bool(self.outcome.outputs)  # All rounds have the program of the first, which is in the run's folder.
        context = replace(self.context, folder=None) if stored else self.context
        run_phase(context, self.number, Phase(PHASE, TITLE, evaluate=_no_findings, jobs=lambda _: jobs), ended)
        if self.outcome.scope is None:
            self.outcome.scope = ended.scope
        self.outcome.reason = ended.reason
        self.outcome.requests += ended.requests
        self.outcome.job_results = {**self.outcome.job_results, **ended.job_results}
        self.outcome.outputs = {**self.outcome.outputs, **ended.outputs}
        return None if ended.reason else ended.scope


def require_slurm(declared: Inventory) -> None:
    """Raise InputError for Kubernetes: no collective runs across its nodes without the MPI operator."""
    if runs_pods(declared):
        hint = "run `rackwright acceptance` without --bisect: phase rdma and the nodes' own phases run"
        raise InputError("searches clusters with Slurm only", path="--bisect", hint=hint)


def _no_findings(_scope: PhaseScope, _outputs: Outputs) -> Iterator[Finding]:
    return iter(())


def _without_network(scope: PhaseScope, measured: Sequence[str]) -> list[Finding]:
    """Return findings for idle nodes that no job can span together with those that were measured."""
    reason = "it is in another partition than the nodes that were measured, or has other GPUs"
    return [unknown(CHECK, node, reason) for node in scope.nodes if node not in measured]


def _why_left(scope: PhaseScope, node: str) -> str:
    return absent(scope.states, node, scope.busy)[1] if node not in scope.nodes else "other partition or GPUs"


def _shown(test: GroupTest) -> str:
    """Return a group in few words.

    >>> _shown(GroupTest(("w0", "w1"), "mlx5_0"))
    'w0, w1 on mlx5_0'
    """
    nodes = ", ".join(test.nodes) if len(test.nodes) <= _NAMED else f"{test.nodes[0]} … {test.nodes[-1]} ({len(test.nodes)} nodes)"
    return f"{nodes} on {test.rail}" if test.rail else nodes


def announce(text: str) -> None:
    """Print a line of progress for the process that started this one."""
    print(json.dumps({"text": text}), flush=True)
