"""Slurm accepts jobs: its controllers respond, its partitions are up, and every node runs the jobs that it gets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from rackwright.checks.acceptance.phase import Finding, Job, Output, Outputs, Phase, PhaseScope, compared, guarded, job_runs, unknown
from rackwright.checks.acceptance.smoke import TASK, arguments, record_on
from rackwright.checks.cluster.probes.slurm import MESSAGE_TIMEOUT, NODES, PARTITIONS, PING
from rackwright.checks.cluster.probes.slurm_states import is_working, states_of
from rackwright.errors import UndeterminedError


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job per node: a node that is drained when its job starts (Prolog) does not stop other jobs."""
    return [Job(f"hello-{node}", (node,), TASK, arguments()) for node in scope.nodes]


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the scheduler's state for every node of the plan, and the result of a job for those that were idle."""
    here = scope.submitter
    yield guarded("controllers_answer", here, lambda: _controllers(scope))
    yield guarded("partitions_are_up", here, lambda: _partitions(scope))
    for node in scope.compute:
        yield guarded("node_takes_jobs", node, partial(_state, scope, node))
    for node in scope.nodes:
        output = outputs[f"hello-{node}"]
        yield job_runs(output, node, "" if output.on(node) else _since(scope, node))
        yield guarded("job_runs_as_its_user", node, partial(_user, scope, output, node))


def _since(scope: PhaseScope, node: str) -> str:
    """Return why the controller has drained the node since, as unhealthy nodes request; empty if it has not."""
    try:
        now = scope.answer(NODES).get(node)
        return f"{'+'.join(sorted(now.states)).lower()}: {now.reason}" if now and now.reason else ""
    except UndeterminedError:
        return ""


def _controllers(scope: PhaseScope) -> Finding:
    """Return whether the controllers respond; unknown after a time-out of scontrol, which prints DOWN for that as well."""
    planned = dict.fromkeys(scope.declared.cluster["scheduler"]["controllers"], True)
    found, seconds = scope.answer(PING), scope.answers[PING.name].seconds
    if seconds >= MESSAGE_TIMEOUT and (late := [host for host, up in found.items() if not up]):
        return unknown("controllers_answer", scope.submitter, f"slurmctld on {', '.join(late)}: no answer within {seconds:.0f} s")
    return compared("controllers_answer", scope.submitter, found, planned)


def _partitions(scope: PhaseScope) -> Finding:
    found = {name: one.state for name, one in scope.answer(PARTITIONS).items()}
    planned = {one["name"]: "UP" for one in scope.declared.cluster["scheduler"]["partitions"]}
    return compared("partitions_are_up", scope.submitter, {name: found.get(name, "missing") for name in planned}, planned)


def _state(scope: PhaseScope, node: str) -> Finding:
    if node not in scope.states:
        return unknown("node_takes_jobs", node, "the scheduler reports no state")
    state = scope.states[node]
    if not re.match(r"[a-z]", state):
        return unknown("node_takes_jobs", node, f'the scheduler reports "{state}"')
    return compared("node_takes_jobs", node, state.removesuffix(" none"), "idle or at work", holds=is_working(states_of(state.split()[0])))


def _user(scope: PhaseScope, output: Output, node: str) -> Finding:
    return compared("job_runs_as_its_user", node, f"uid {record_on(output, node).uid}", f"uid {scope.uid}")


PHASE: Final = Phase("slurm_health", "Slurm health", evaluate, jobs, probes=(PING, PARTITIONS, NODES))
