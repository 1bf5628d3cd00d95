"""The report of one run: every result that the plan expects, present or unknown, and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from rackwright.catalog.checks import Kind
from rackwright.report.declared import Declared
from rackwright.report.manifest import Manifest
from rackwright.report.result import Result, from_dict, result
from rackwright.report.verdict import PARTIAL, NotRunReason, Verdict, worst

SCHEMA: Final = "rackwright.report/1"
NOT_ENDED: Final = "did not run: the run that was to do it has not ended"


@dataclass(frozen=True)
class Report:
    """What a run proved, about which plan, at which level."""

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
        """Results by verdict."""
        counted = [check.verdict for check in self.checks]
        return {verdict.value: counted.count(verdict) for verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED, Verdict.UNKNOWN)}

    @property
    def partial(self) -> bool:
        """Whether the run was limited to some nodes, to job checks or to some phases, and so says nothing about the whole cluster."""
        return any(item["reason"] in PARTIAL for item in self.not_run)

    @property
    def by_jobs(self) -> Verdict | None:
        """What its jobs came to; nothing where it ran none."""
        told = [check.verdict for check in self.checks if check.kind == Kind.JOB]
        return worst(told) if told else None

    def as_dict(self) -> dict[str, Any]:
        """In the shape of the contract `rackwright.report/1`."""
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


def report_from_dict(data: Mapping[str, Any]) -> Report:
    """A report as it was written; raises KeyError or ValueError where it is none."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"speaks {data['schema']}, not {SCHEMA}")
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


def assemble(
    declared: Declared,
    owed: Manifest,
    results: Mapping[str, Result],
    *,
    started: datetime,
    seconds: float,
    missing: str | Callable[[str], str] = NOT_ENDED,
    today: date | None = None,
) -> Report:
    """The report of a run. Whatever it owes and did not deliver is unknown, for the reason `missing` (a text, or asked by check key)."""
    why = missing if callable(missing) else lambda _key: missing
    checks = [results.get(id_) or _absent(item, why(item.spec.key), declared.stack) for id_, item in owed.expected.items()]
    nodes = [_node(name, [check for check in checks if check.node == name]) for name in declared.nodes]
    return Report(
        stack=declared.stack,
        plan=declared.plan,
        level=owed.level.value,
        started=started,
        seconds=seconds,
        nodes=tuple(nodes + [_out(record, today or datetime.now(UTC).date()) for record in declared.out.values()]),
        checks=tuple(checks),
        not_run=_not_run(owed),
        verdict=_verdict(owed, checks),
    )


def invalidate(declared: Declared, owed: Manifest, started: datetime) -> Report:
    """The report of a run that has started and found nothing yet: what it does not come to say stays unknown."""
    return assemble(declared, owed, {}, started=started, seconds=0.0)


def _absent(item: Any, reason: str, stack: str) -> Result:
    return result(item, Verdict.UNKNOWN, reason=reason, stack=stack)


def _verdict(owed: Manifest, checks: list[Result]) -> Verdict:
    """Passed only when something was owed, everything owed is there, and nothing failed or is unknown."""
    if owed.empty_groups:
        return Verdict.UNKNOWN
    verdict = worst(check.verdict for check in checks)
    return Verdict.UNKNOWN if verdict is Verdict.SKIPPED else verdict


def _node(name: str, checks: list[Result]) -> dict[str, Any]:
    verdicts = [check.verdict for check in checks]
    return {"name": name, "state": "in", "checks": len(checks), "verdict": worst(verdicts).value, "reason": "", "until": None}


def _out(record: Mapping[str, Any], today: date) -> dict[str, Any]:
    """A node that was left out; a date that has passed is said, because the node is then overdue."""
    until = str(record["until"]) if record.get("until") else None
    overdue = until is not None and date.fromisoformat(until) < today
    reason = str(record.get("reason") or "no reason given") + (f" (was to be back on {until})" if overdue else "")
    return {"name": record["name"], "state": "out", "checks": 0, "verdict": Verdict.SKIPPED.value, "reason": reason, "until": until}


def _not_run(owed: Manifest) -> tuple[dict[str, str], ...]:
    left_out = [{"id": item.id, "reason": item.reason.value, "detail": item.detail} for item in owed.not_run]
    empty = [
        {"id": key, "reason": NotRunReason.EMPTY_GROUP.value, "detail": f"the plan has this part, but no node is in group {group}"}
        for key, group in owed.empty_groups.items()
    ]
    return tuple(left_out + empty)
