"""Kubernetes accepts Jobs: its API responds, the namespace has its claim, nodes accept pods, and each runs a Job as its user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from rackwright.checks.acceptance.phase import (
    AcceptanceProbe,
    Finding,
    Job,
    Output,
    Outputs,
    Phase,
    PhaseScope,
    compared,
    guarded,
    job_runs,
)
from rackwright.checks.acceptance.smoke import TASK, arguments, record_on
from rackwright.checks.cluster.probes.slurm_states import at_work
from rackwright.remote.programs.quantities import quantity


def parse_claim(text: str) -> dict[str, Any]:
    """Return the phase of a claim and its size in MiB."""
    status = json.loads(text)["status"]
    return {"phase": status["phase"], "mib": round(quantity((status.get("capacity") or {}).get("storage", "0")) / 2**20)}


READY: Final = AcceptanceProbe("acceptance-ready", on="@submit", command="kubectl get --raw /readyz", parse=str.strip, timeout=15)
CLAIM: Final = AcceptanceProbe(
    "acceptance-claim",
    on="@submit",
    command='kubectl --namespace "$NAMESPACE" get persistentvolumeclaim shared --output=json',
    parse=parse_claim,
    timeout=15,
)


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job per node."""
    return [Job(f"hello-{node}", (node,), TASK, arguments()) for node in scope.nodes]


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the API's state for every node of the plan, and the result of a Job for those that were idle."""
    here = scope.submitter
    yield guarded("api_answers", here, lambda: compared("api_answers", here, scope.answer(READY), "ok"))
    if any(one["claim_mib"] is not None for one in _spaces(scope)):
        yield guarded("claim_is_bound", here, lambda: _claim(scope))
    for node in scope.compute:
        yield _state(scope, node)
    for node in scope.nodes:
        output = outputs[f"hello-{node}"]
        yield job_runs(output, node)
        yield guarded("job_runs_as_its_user", node, partial(_user, scope, output, node))


def _claim(scope: PhaseScope) -> Finding:
    planned = next(one["claim_mib"] for one in _spaces(scope) if one["claim_mib"] is not None)
    claim = scope.answer(CLAIM)
    return compared("claim_is_bound", scope.submitter, f"{claim['phase']}, {claim['mib']} MiB", f"Bound, {planned} MiB")


def _spaces(scope: PhaseScope) -> list[dict[str, Any]]:
    return [one for one in scope.declared.cluster["scheduler"]["namespaces"] if one["name"] == scope.namespace]


def _state(scope: PhaseScope, node: str) -> Finding:
    if node not in scope.states:
        return compared("node_schedulable", node, "no node of the cluster", "Ready and schedulable")
    state = scope.states[node]
    return compared(
        "node_schedulable", node, state.removesuffix(" none"), "idle or at work", holds=state.startswith("idle") or at_work(state)
    )


def _user(scope: PhaseScope, output: Output, node: str) -> Finding:
    return compared("job_runs_as_its_user", node, f"uid {record_on(output, node).uid}", f"uid {scope.uid}")


PHASE: Final = Phase("kubernetes_health", "Kubernetes health", evaluate, jobs, probes=(READY, CLAIM))
