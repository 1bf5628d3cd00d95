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
from rackwright.checks.acceptance.harness.node_scope import Submission, idle
from rackwright.checks.acceptance.harness.submitter import Asking
from rackwright.checks.acceptance.phase import Finding, Job, Output, Phase, Scope
from rackwright.checks.cluster.harness.probe import Raw
from rackwright.errors import UndeterminedError

SETTLE: Final = 5
"""Seconds that nodes get to end their work: a job that has just ended keeps its node for a moment."""
_COMPLETING: Final = 45
"""Seconds for nodes that were idle and only end the run's own last job: a cancelled job has KillWait (30 s) for that."""


_AT_ONCE: Final = 32
"""Jobs of one round that are submitted at the same time: each is a process on the submitting node."""


@dataclass(frozen=True)
class Stage:
    """The state that all phases of a run share."""

    ask: Asking
    sender: Submission
    run: str
    identity: Mapping[str, Any]
    """The user who submits the jobs, and the scheduler."""
    launcher: Launcher
    busy: frozenset[str]
    """Nodes that were at work when the run began: the run does not wait for them."""
    folder: str | None
    """The run's folder on the shared file system."""
    trouble: str
    """Why there is no folder."""
    baseline: Mapping[str, float]
    settle: float = SETTLE
    """Seconds that nodes get to end their work."""


@dataclass
class Played:
    """The outcome of a phase."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    scope: Scope | None = None
    came: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The report of the submitting node on each job."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    why: str = ""
    """Why the remaining checks are unknown."""


def open_stage(ask: Asking, sender: Submission, run: str, baseline: Mapping[str, float], settle: float = SETTLE) -> Stage:
    """Return the identity of the submitter, the nodes at work, and the folder of the run."""
    answer = _answer_of(ask, {"identify": True, "nodes": list(sender.compute), "settle_seconds": settle}, settle)
    busy = frozenset(sender.compute) - set(idle(answer["states"], sender.compute))
    folder, trouble = None, "the plan has no shared file system that jobs may write to"
    if sender.mount is not None:
        path = f"{sender.mount}/validation/results/infra-smoke-{run}"
        trouble = str(ask({"open": path})["trouble"])
        folder = None if trouble else path
    identity = answer["identity"]
    return Stage(ask, sender, run, identity, launcher(sender, identity), busy, folder, trouble, baseline, settle)


def play(stage: Stage, number: int, phase: Phase, played: Played) -> None:
    """Run a phase; an error becomes the reason of the checks that stay unknown."""
    try:
        played.scope = _scope(stage, number, phase)
        jobs = {job.name: job for job in phase.jobs(played.scope)}
        played.requests = [stage.launcher.request(job, stage.run, phase.folder(number)) for job in jobs.values()]
        _prepare(stage, phase, jobs, played)
        _send(stage, phase, jobs, played)
        for finding in phase.judge(played.scope, played.outputs):  # One by one: findings before an error count.
            played.findings.append(finding)
    except UndeterminedError as error:
        played.why = str(error)
    except Exception as error:  # A phase that fails must leave its checks unknown, not the run without a report.
        played.why = f"the phase itself broke: {error!r}"


def _scope(stage: Stage, number: int, phase: Phase) -> Scope:
    sender = stage.sender
    waited = [name for name in sender.compute if name not in stage.busy] or list(sender.compute)
    patience = {"settle_seconds": stage.settle, "completing_seconds": _COMPLETING}
    states = dict(_answer_of(stage.ask, {"nodes": waited, **patience}, _COMPLETING)["states"])
    if stage.busy:
        states |= _answer_of(stage.ask, {"nodes": sorted(stage.busy), "settle_seconds": 0}, 0)["states"]
    free = idle(states, sender.compute)
    return Scope(
        declared=sender.declared,
        nodes=free,
        states=states,
        busy=stage.busy,
        run=stage.run,
        submitter=sender.name,
        user=str(stage.identity["user"]),
        uid=int(stage.identity["uid"]),
        mount=sender.mount,
        folder=f"{stage.folder}/{phase.folder(number)}" if stage.folder else None,
        trouble=stage.trouble,
        parts=sender.parts(free),
        namespace=sender.namespace,
        most_gpus=sender.most_gpus,
        baseline=stage.baseline,
    )


def _prepare(stage: Stage, phase: Phase, jobs: Mapping[str, Job], played: Played) -> None:
    """Write the programs, once per run, and the files that the phase's folder needs before any job starts."""
    scope = played.scope
    if scope is not None and scope.folder is not None and stage.folder is not None:
        _answer_of(stage.ask, {"write": stage.folder, "files": files.programs(stage.launcher, jobs.values(), played.requests)}, 0)
        _answer_of(stage.ask, {"write": scope.folder, "files": phase.files(scope)}, 0)


def _send(stage: Stage, phase: Phase, jobs: Mapping[str, Job], played: Played) -> None:
    """Submit the jobs round by round, ask the questions, and read the results."""
    assert played.scope is not None
    scope = played.scope
    rounds: dict[int, list[dict[str, Any]]] = {}
    for job, sent in zip(jobs.values(), played.requests, strict=True):
        rounds.setdefault(job.round, []).append(sent)
    longest = sum(map(_time_limit, rounds.values())) + sum(one.timeout for one in phase.questions)
    request = {
        "rounds": [rounds[key] for key in sorted(rounds)],
        "at_once": _AT_ONCE,
        "questions": [(one.name, one.command, one.timeout) for one in phase.questions],
        "environment": {"FOLDER": scope.folder or "", "MOUNT": scope.mount or "", "NAMESPACE": stage.sender.namespace or ""},
        "empty": [f"{scope.folder}/{pattern}" for pattern in phase.leaves] if scope.folder else [],
    }
    answer = _answer_of(stage.ask, request, longest)
    played.came = {one["name"]: one for one in answer["jobs"]}
    played.outputs = {name: stage.launcher.output(job, played.came[name]) for name, job in jobs.items()}
    played.scope = replace(scope, answers={name: Raw(**raw) for name, raw in answer["answers"].items()})


def _time_limit(group: list[dict[str, Any]]) -> float:
    """Return the seconds that the jobs of a round may take: one after the other if a quota may delay them."""
    if any(one.get("queued") for one in group):
        return float(sum(one["seconds"] for one in group))
    return float(max(one["seconds"] for one in group) * math.ceil(len(group) / _AT_ONCE))


def _answer_of(ask: Asking, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return an answer without trouble; raises UndeterminedError with the trouble."""
    answer = ask(request, seconds=seconds)
    if answer["trouble"]:
        raise UndeterminedError(answer["trouble"])
    return answer
