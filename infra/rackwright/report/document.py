"""The report of a run: every result that the plan expects, unknown if it is missing, and the combined verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from rackwright.catalog.checks import Kind
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.check_plan import CheckPlan
from rackwright.report.result import Result, from_dict, result
from rackwright.report.verdict import PARTIAL, NotRunReason, SkipReason, Verdict, worst

SCHEMA: Final = "rackwright.report/1"
NOT_ENDED: Final = "did not run: its run has not finished"
_CAUSES: Final[Mapping[str, str]] = {SkipReason.DAEMON_DOWN: "a daemon is down", SkipReason.NODE_SLOW: "the node is slow"}
"""Causes in the cluster for which a check is skipped. Another result reports them."""


@dataclass(frozen=True)
class Report:
    """The results of a run, with its plan and level."""

    stack: str
    plan: str
    level: str
    started: datetime
    seconds: float
    nodes: tuple[Mapping[str, Any], ...]
    checks: tuple[Result, ...]
    not_run: tuple[Mapping[str, str], ...]
    verdict: Verdict

    @property
    def totals(self) -> dict[str, int]:
        """Return the number of results by verdict."""
        counted = [check.verdict for check in self.checks]
        return {verdict.value: counted.count(verdict) for verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED, Verdict.UNKNOWN)}

    @property
    def partial(self) -> bool:
        """Return whether the run was limited to some nodes, to job checks or to some phases, so that it has no verdict on the cluster."""
        return any(item["reason"] in PARTIAL for item in self.not_run)

    @property
    def job_verdict(self) -> Verdict | None:
        """Return the combined verdict of the job checks, or None if there were none."""
        verdicts = [check.verdict for check in self.checks if check.kind == Kind.JOB]
        return worst(verdicts) if verdicts else None

    def as_dict(self) -> dict[str, Any]:
        """Return the report as data in the format of the contract `rackwright.report/1`."""
        return {
            "schema": SCHEMA,
            "stack": self.stack,
            "plan": self.plan,
            "level": self.level,
            "started": self.started.isoformat(timespec="milliseconds"),
            "seconds": round(self.seconds, 3),
            "nodes": [dict(node) for node in self.nodes],
            "checks": [check.as_dict() for check in self.checks],
            "not_run": [dict(item) for item in self.not_run],
            "totals": self.totals,
            "verdict": self.verdict.value,
        }


def read(file: Path) -> Report:
    """Read the recorded report; raise UndeterminedError if it is missing or unreadable."""
    try:
        return report_from_dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UndeterminedError("no verdict recorded", path=str(file), hint="run `rackwright verify STACK`") from None
    except OSError as refused:
        raise UndeterminedError(f"cannot be read: {refused.strerror}", path=str(file), hint="check the file's type and mode") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UndeterminedError(
            f"invalid report: {error}", path=str(file), hint="run `rackwright verify STACK` to write it again"
        ) from None


def report_from_dict(data: Mapping[str, Any]) -> Report:
    """Return a report from its data; raise KeyError or ValueError if the data is invalid."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"unsupported schema: expected {SCHEMA}, found {data['schema']}")
    return Report(
        stack=data["stack"],
        plan=data["plan"],
        level=data["level"],
        started=datetime.fromisoformat(data["started"]),
        seconds=data["seconds"],
        nodes=tuple(data["nodes"]),
        checks=tuple(from_dict(check) for check in data["checks"]),
        not_run=tuple(data["not_run"]),
        verdict=Verdict(data["verdict"]),
    )


def build_report(
    declared: Inventory,
    check_plan: CheckPlan,
    results: Mapping[str, Result],
    *,
    started: datetime,
    seconds: float,
    missing: str | Callable[[str], str] = NOT_ENDED,
    today: date | None = None,
) -> Report:
    """Return the report of a run. Missing results are unknown, with the reason `missing` (a text, or a function of the check key)."""
    why = missing if callable(missing) else lambda _key: missing
    checks = [results.get(id_) or _absent(item, why(item.spec.key), declared.stack) for id_, item in check_plan.expected.items()]
    checks = _without_unfounded_skips(checks)
    nodes = [_node(name, [check for check in checks if check.node == name]) for name in declared.nodes]
    return Report(
        stack=declared.stack,
        plan=declared.plan,
        level=check_plan.level.value,
        started=started,
        seconds=seconds,
        nodes=tuple(nodes + [_out(record, today or datetime.now(UTC).date()) for record in declared.out.values()]),
        checks=tuple(checks),
        not_run=_not_run(check_plan),
        verdict=_verdict(check_plan, checks),
    )


def invalidate(declared: Inventory, check_plan: CheckPlan, started: datetime) -> Report:
    """Return the report of a run that has just started: all results are unknown until the run provides them."""
    return build_report(declared, check_plan, {}, started=started, seconds=0.0)


def _absent(item: Any, reason: str, stack: str) -> Result:
    return result(item, Verdict.UNKNOWN, reason=reason, stack=stack)


def _without_unfounded_skips(checks: list[Result]) -> list[Result]:
    """Return the results with unfounded skips as unknown: a skip with a cause in the cluster must name a result that failed."""
    failed = [check.id for check in checks if check.verdict is Verdict.FAILED]

    def founded(check: Result) -> Result:
        cause = _CAUSES.get(check.reason) if check.verdict is Verdict.SKIPPED else None
        if cause is None or any(one in check.found for one in failed):
            return check
        why = f"skipped because {cause}, but the result that reports it did not fail"
        return replace(check, verdict=Verdict.UNKNOWN, reason=f"{why}: {check.found}")

    return [founded(check) for check in checks]


def _verdict(check_plan: CheckPlan, checks: list[Result]) -> Verdict:
    """Return `passed` only if results were expected, none is missing, and none failed or is unknown."""
    if check_plan.empty_groups:
        return Verdict.UNKNOWN
    verdict = worst(check.verdict for check in checks)
    return Verdict.UNKNOWN if verdict is Verdict.SKIPPED else verdict


def _node(name: str, checks: list[Result]) -> dict[str, Any]:
    verdicts = [check.verdict for check in checks]
    return {"name": name, "state": "in", "checks": len(checks), "verdict": worst(verdicts).value, "reason": "", "until": None}


def _out(record: Mapping[str, Any], today: date) -> dict[str, Any]:
    """Return the row of a node with the state `out`; state an expected return date that has passed."""
    until = str(record["until"]) if record.get("until") else None
    overdue = until is not None and date.fromisoformat(until) < today
    reason = str(record.get("reason") or "no reason given") + (f" (overdue: expected back on {until})" if overdue else "")
    return {"name": record["name"], "state": "out", "checks": 0, "verdict": Verdict.SKIPPED.value, "reason": reason, "until": until}


def _not_run(check_plan: CheckPlan) -> tuple[dict[str, str], ...]:
    left_out = [{"id": item.id, "reason": item.reason.value, "detail": item.detail} for item in check_plan.not_run]
    empty = [
        {"id": key, "reason": NotRunReason.EMPTY_GROUP.value, "detail": f"the plan includes this feature, but group {group} has no node"}
        for key, group in check_plan.empty_groups.items()
    ]
    return tuple(left_out + empty)
