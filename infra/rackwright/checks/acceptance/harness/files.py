"""The files that are stored of a phase in addition to its jobs' programs: meta.json, stdout, stderr and result.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.checks.acceptance.harness.labelled import of_a_task
from rackwright.checks.acceptance.harness.launcher import Launcher
from rackwright.checks.acceptance.phase import Job
from rackwright.printable import printable
from rackwright.report.acceptance import PhaseReport
from rackwright.report.redact import Redactor
from rackwright.report.result import Result

if TYPE_CHECKING:
    from rackwright.checks.acceptance.harness.phase_run import Played, Stage


def programs(launcher: Launcher, jobs: Iterable[Job], requests: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts of the programs as they run, by their path in the run's folder."""
    found = {f"programs/{job.program.name}": launcher.sent(job.program) for job in jobs}
    for one in requests:
        found |= launcher.files(one)
    return found


def jobs_of(played: Played, redact: Redactor) -> tuple[dict[str, Any], ...]:
    """Return one row per job: command, nodes, how it ended."""
    commands = {one["name"]: one["argv"] for one in played.requests}
    return tuple(
        {
            "name": name,
            "id": output.id,
            "nodes": list(output.job.nodes),
            "command": commands[name],
            "status": output.status,
            "error": printable(redact(output.trouble)),
            "seconds": round(output.seconds, 3),
        }
        for name, output in played.outputs.items()
    )


def measurements_of(played: Played) -> tuple[dict[str, Any], ...]:
    """Return every measured number with its check and node."""
    return tuple(
        {"check": finding.check, "node": finding.node, "name": figure.name, "value": figure.value, "unit": figure.unit}
        for finding in played.findings
        for figure in finding.figures
    )


def texts(stage: Stage, played: Played, report: PhaseReport, results: Sequence[Result], redact: Redactor) -> dict[str, str]:
    """Return the files of a phase, by name."""
    result = {**report.as_dict(), "checks": [one.as_dict() for one in results]}
    return {
        "meta.json": redact(_json(_meta(stage, played, report))),
        "stdout": redact(_join_streams(stage.launcher, played, "out")),
        "stderr": redact(_join_streams(stage.launcher, played, "err") if any(raw["err"] for raw in played.came.values()) else ""),
        "result.json": redact(_json(result)),
    }


def _meta(stage: Stage, played: Played, report: PhaseReport) -> dict[str, Any]:
    """Return what ran, with which versions and where; versions and environment are those that the jobs report."""
    heads = [head for raw in played.came.values() for head in stage.launcher.heads(raw["out"])]
    versions = {head["node"]: head["versions"] for head in heads if "versions" in head}
    for head in heads:  # A job with GPUs reports a driver.
        if head.get("versions", {}).get("driver"):
            versions[head["node"]] = head["versions"]
    scope = played.scope
    return {
        "run": stage.run,
        "phase": report.name,
        "stack": stage.sender.declared.stack,
        "plan": stage.sender.declared.plan,
        "started": played.started.isoformat(timespec="milliseconds"),
        "seconds": round(report.seconds, 3),
        "user": stage.identity["user"],
        "submitter": stage.sender.name,
        "nodes": list(scope.nodes) if scope else [],
        "left_out": _left_out(stage, scope.states if scope else {}, scope.nodes if scope else ()),
        "versions": {**stage.identity["versions"], "submitter_kernel": stage.identity["kernel"], "nodes": versions},
        "environment": next((head["environment"] for head in heads if "environment" in head), {}),
        "jobs": list(report.jobs),
    }


def _left_out(stage: Stage, states: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """Return the nodes to which no job was submitted, with the reason."""
    out = {name: f"out: {record.get('reason') or 'no reason given'}" for name, record in stage.sender.declared.out.items()}
    return {**{name: states.get(name, "unknown to the scheduler") for name in stage.sender.compute if name not in nodes}, **out}


def _join_streams(launcher: Launcher, played: Played, stream: str) -> str:
    """Return the output of the jobs in order, each line prefixed with the rank of its task; the output of srun itself comes last."""
    joined = []
    for name, output in played.outputs.items():
        text = str(played.came[name][stream])
        joined.append(f"=== {name} (job {output.id or 'none'}, status {output.status})")
        joined += [f"{rank}: {line}" for rank, line in launcher.whole_lines(text)]
        joined += [line for line in text.splitlines() if not of_a_task(line)]
    return "\n".join([*joined, ""])


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
