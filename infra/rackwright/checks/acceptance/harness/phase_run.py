"""The run of one phase on the cluster: select idle nodes, submit and await jobs, ask questions, collect findings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from rackwright.checks.acceptance.harness import files
from rackwright.checks.acceptance.harness.launcher import Launcher
from rackwright.checks.acceptance.harness.launchers import launcher
from rackwright.checks.acceptance.harness.node_scope import SubmitHost, idle
from rackwright.checks.acceptance.harness.submitter import SendRequest
from rackwright.checks.acceptance.phase import Finding, Job, Output, Phase, PhaseScope
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.errors import UndeterminedError

SETTLE: Final = 5
"""Seconds that nodes get to end their work: a job that has just ended keeps its node for a moment."""
_COMPLETING: Final = 45
"""Seconds for nodes that were idle and only end the run's own last job: a cancelled job has KillWait (30 s) for that."""


_AT_ONCE: Final = 32
"""Jobs of one round that are submitted at the same time: each is a process on the submitting node."""


@dataclass(frozen=True)
class PhaseContext:
    """The state that all phases of a run share."""

    ask: SendRequest
    sender: SubmitHost
    run: str
    identity: Mapping[str, Any]
    """The user who submits the jobs, and the scheduler."""
    launcher: Launcher
    busy: frozenset[str]
    """Nodes that were at work when the run began: the run does not wait for them."""
    folder: str | None
    """The run's folder on the shared file system."""
    error: str
    """Why there is no folder."""
    baseline: Mapping[str, float]
    settle: float = SETTLE
    """Seconds that nodes get to end their work."""


@dataclass
class PhaseResult:
    """The outcome of a phase."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    scope: PhaseScope | None = None
    job_results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The report of the submitting node on each job."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    reason: str = ""
    """Why the remaining checks are unknown."""


def open_context(ask: SendRequest, sender: SubmitHost, run: str, baseline: Mapping[str, float], settle: float = SETTLE) -> PhaseContext:
    """Return the identity of the submitter, the nodes at work, and the folder of the run."""
    answer = _answer_of(ask, {"identify": True, "nodes": list(sender.compute), "settle_seconds": settle}, settle)
    busy = frozenset(sender.compute) - set(idle(answer["states"], sender.compute))
    folder, trouble = None, "the plan has no shared file system that jobs may write to"
    if sender.mount is not None:
        path = f"{sender.mount}/validation/results/infra-smoke-{run}"
        trouble = str(ask({"open": path})["error"])
        folder = None if trouble else path
    identity = answer["identity"]
    return PhaseContext(ask, sender, run, identity, launcher(sender, identity), busy, folder, trouble, baseline, settle)


def run_phase(context: PhaseContext, number: int, phase: Phase, outcome: PhaseResult) -> None:
    """Run a phase; an error becomes the reason of the checks that stay unknown."""
    try:
        outcome.scope = _scope(context, number, phase)
        jobs = {job.name: job for job in phase.jobs(outcome.scope)}
        outcome.requests = [context.launcher.request(job, context.run, phase.folder(number)) for job in jobs.values()]
        _prepare(context, phase, jobs, outcome)
        _send(context, phase, jobs, outcome)
        for finding in phase.evaluate(outcome.scope, outcome.outputs):  # One by one: findings before an error count.
            outcome.findings.append(finding)
    except UndeterminedError as error:
        outcome.reason = str(error)
    except Exception as error:  # A phase that fails must leave its checks unknown, not the run without a report.
        outcome.reason = f"the phase failed with an internal error: {error!r}"


def _scope(context: PhaseContext, number: int, phase: Phase) -> PhaseScope:
    sender = context.sender
    waited = [name for name in sender.compute if name not in context.busy] or list(sender.compute)
    patience = {"settle_seconds": context.settle, "completing_seconds": _COMPLETING}
    states = dict(_answer_of(context.ask, {"nodes": waited, **patience}, _COMPLETING)["states"])
    if context.busy:
        states |= _answer_of(context.ask, {"nodes": sorted(context.busy), "settle_seconds": 0}, 0)["states"]
    free = idle(states, sender.compute)
    return PhaseScope(
        declared=sender.declared,
        nodes=free,
        states=states,
        busy=context.busy,
        run=context.run,
        submitter=sender.name,
        user=str(context.identity["user"]),
        uid=int(context.identity["uid"]),
        mount=sender.mount,
        folder=f"{context.folder}/{phase.folder(number)}" if context.folder else None,
        error=context.error,
        parts=sender.parts(free),
        namespace=sender.namespace,
        max_gpus=sender.max_gpus,
        baseline=context.baseline,
    )


def _prepare(context: PhaseContext, phase: Phase, jobs: Mapping[str, Job], outcome: PhaseResult) -> None:
    """Write the programs, once per run, and the files that the phase's folder needs before any job starts."""
    scope = outcome.scope
    if scope is not None and scope.folder is not None and context.folder is not None:
        _answer_of(context.ask, {"write": context.folder, "files": files.programs(context.launcher, jobs.values(), outcome.requests)}, 0)
        _answer_of(context.ask, {"write": scope.folder, "files": phase.files(scope)}, 0)


def _send(context: PhaseContext, phase: Phase, jobs: Mapping[str, Job], outcome: PhaseResult) -> None:
    """Submit the jobs round by round, ask the questions, and read the results."""
    assert outcome.scope is not None
    scope = outcome.scope
    rounds: dict[int, list[dict[str, Any]]] = {}
    for job, sent in zip(jobs.values(), outcome.requests, strict=True):
        rounds.setdefault(job.round, []).append(sent)
    longest = sum(map(_time_limit, rounds.values())) + sum(one.timeout for one in phase.probes)
    request = {
        "rounds": [rounds[key] for key in sorted(rounds)],
        "at_once": _AT_ONCE,
        "questions": [(one.name, one.command, one.timeout) for one in phase.probes],
        "environment": {"FOLDER": scope.folder or "", "MOUNT": scope.mount or "", "NAMESPACE": context.sender.namespace or ""},
        "empty": [f"{scope.folder}/{pattern}" for pattern in phase.cleanup_patterns] if scope.folder else [],
    }
    answer = _answer_of(context.ask, request, longest)
    outcome.job_results = {one["name"]: one for one in answer["jobs"]}
    outcome.outputs = {name: context.launcher.output(job, outcome.job_results[name]) for name, job in jobs.items()}
    outcome.scope = replace(scope, answers={name: CommandOutput(**raw) for name, raw in answer["answers"].items()})


def _time_limit(group: list[dict[str, Any]]) -> float:
    """Return the seconds that the jobs of a round may take: one after the other if a quota may delay them."""
    if any(one.get("queued") for one in group):
        return float(sum(one["seconds"] for one in group))
    return float(max(one["seconds"] for one in group) * math.ceil(len(group) / _AT_ONCE))


def _answer_of(ask: SendRequest, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return an answer without trouble; raises UndeterminedError with the trouble."""
    answer = ask(request, seconds=seconds)
    if answer["error"]:
        raise UndeterminedError(answer["error"])
    return answer
