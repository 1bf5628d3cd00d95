"""The files that are stored of a phase in addition to its jobs' programs: meta.json, stdout, stderr and result.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.checks.acceptance.harness.launcher import Launcher
from rackwright.checks.acceptance.harness.rank_prefixed_output import of_a_task
from rackwright.checks.acceptance.phase import Job
from rackwright.printable import printable
from rackwright.report.acceptance import PhaseReport
from rackwright.report.redact import Redactor
from rackwright.report.result import Result

if TYPE_CHECKING:
    from rackwright.checks.acceptance.harness.phase_run import PhaseContext, PhaseResult


def programs(launcher: Launcher, jobs: Iterable[Job], requests: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts of the programs as they run, by their path in the run's folder."""
    found = {f"programs/{job.program.name}": launcher.sent(job.program) for job in jobs}
    for one in requests:
        found |= launcher.files(one)
    return found


def jobs_of(outcome: PhaseResult, redact: Redactor) -> tuple[dict[str, Any], ...]:
    """Return one row per job: command, nodes, how it ended."""
    commands = {one["name"]: one["argv"] for one in outcome.requests}
    return tuple(
        {
            "name": name,
            "id": output.id,
            "nodes": list(output.job.nodes),
            "command": commands[name],
            "status": output.status,
            "error": printable(redact(output.error)),
            "seconds": round(output.seconds, 3),
        }
        for name, output in outcome.outputs.items()
    )


def measurements_of(outcome: PhaseResult) -> tuple[dict[str, Any], ...]:
    """Return every measured number with its check and node."""
    return tuple(
        {"check": finding.check, "node": finding.node, "name": figure.name, "value": figure.value, "unit": figure.unit}
        for finding in outcome.findings
        for figure in finding.measurements
    )


def texts(context: PhaseContext, outcome: PhaseResult, report: PhaseReport, results: Sequence[Result], redact: Redactor) -> dict[str, str]:
    """Return the files of a phase, by name."""
    result = {**report.as_dict(), "checks": [one.as_dict() for one in results]}
    return {
        "meta.json": redact(_json(_meta(context, outcome, report))),
        "stdout": redact(_join_streams(context.launcher, outcome, "out")),
        "stderr": redact(
            _join_streams(context.launcher, outcome, "err") if any(raw["err"] for raw in outcome.job_results.values()) else ""
        ),
        "result.json": redact(_json(result)),
    }


def _meta(context: PhaseContext, outcome: PhaseResult, report: PhaseReport) -> dict[str, Any]:
    """Return what ran, with which versions and where; versions and environment are those that the jobs report."""
    heads = [head for raw in outcome.job_results.values() for head in context.launcher.heads(raw["out"])]
    versions = {head["node"]: head["versions"] for head in heads if "versions" in head}
    for head in heads:  # A job with GPUs reports a driver.
        if head.get("versions", {}).get("driver"):
            versions[head["node"]] = head["versions"]
    scope = outcome.scope
    return {
        "run": context.run,
        "phase": report.name,
        "stack": context.sender.declared.stack,
        "plan": context.sender.declared.plan,
        "started": outcome.started.isoformat(timespec="milliseconds"),
        "seconds": round(report.seconds, 3),
        "user": context.identity["user"],
        "submitter": context.sender.name,
        "nodes": list(scope.nodes) if scope else [],
        "left_out": _left_out(context, scope.states if scope else {}, scope.nodes if scope else ()),
        "versions": {**context.identity["versions"], "submitter_kernel": context.identity["kernel"], "nodes": versions},
        "environment": next((head["environment"] for head in heads if "environment" in head), {}),
        "jobs": list(report.jobs),
    }


def _left_out(context: PhaseContext, states: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """Return the nodes to which no job was submitted, with the reason."""
    out = {name: f"out: {record.get('reason') or 'no reason given'}" for name, record in context.sender.declared.out.items()}
    return {**{name: states.get(name, "unknown to the scheduler") for name in context.sender.compute if name not in nodes}, **out}


def _join_streams(launcher: Launcher, outcome: PhaseResult, stream: str) -> str:
    """Return the output of the jobs in order, each line prefixed with the rank of its task; the output of srun itself comes last."""
    joined = []
    for name, output in outcome.outputs.items():
        text = str(outcome.job_results[name][stream])
        joined.append(f"=== {name} (job {output.id or 'none'}, status {output.status})")
        joined += [f"{rank}: {line}" for rank, line in launcher.whole_lines(text)]
        joined += [line for line in text.splitlines() if not of_a_task(line)]
    return "\n".join([*joined, ""])


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
