"""The report of an acceptance test: the report of its checks, and the phases and jobs that produced them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rackwright.errors import UndeterminedError
from rackwright.report.document import SCHEMA as REPORT_SCHEMA
from rackwright.report.document import Report, report_from_dict
from rackwright.report.verdict import Verdict

SCHEMA: Final = "rackwright.acceptance/2"


class PhaseState(StrEnum):
    """State of a phase."""

    RAN = "ran"
    SKIPPED = "skipped"
    NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """A phase of a run."""

    number: int
    name: str
    title: str
    state: PhaseState
    verdict: Verdict | None
    """None if the phase did not run."""
    reason: str
    """Reason why the phase was skipped or did not run; empty if it ran."""
    seconds: float
    artifacts: str
    """Folder of the phase's files; empty if there are none."""
    jobs: tuple[Mapping[str, Any], ...] = ()
    measurements: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the phase as data in the format of the contract."""
        return {
            "number": self.number,
            "name": self.name,
            "title": self.title,
            "state": self.state.value,
            "verdict": self.verdict.value if self.verdict else None,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "artifacts": self.artifacts,
            "jobs": [dict(job) for job in self.jobs],
            "measurements": [dict(measurement) for measurement in self.measurements],
        }


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The result of an acceptance test."""

    report: Report
    run: str
    user: str
    """User who submitted the jobs."""
    results: str
    """Folder of the run: on the cluster's shared file system, or on this machine if no shared one is writable."""
    phases: tuple[PhaseReport, ...]
    bisection: Mapping[str, Any] | None = None
    """The search for what makes a collective slow; None if the run had none."""

    def as_dict(self) -> dict[str, Any]:
        """Return the data in the format of the contract `rackwright.acceptance/2`, an extension of a report."""
        phases = [phase.as_dict() for phase in self.phases]
        own = {"schema": SCHEMA, "run": self.run, "user": self.user, "results": self.results, "phases": phases}
        searched = {} if self.bisection is None else {"bisection": dict(self.bisection)}
        return {**self.report.as_dict(), **own, **searched}


def acceptance_from_dict(data: Mapping[str, Any]) -> Acceptance:
    """Return an acceptance from its data; raise KeyError or ValueError if the data is invalid."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"unsupported schema: expected {SCHEMA}, found {data['schema']}")
    phases = tuple(_phase(phase) for phase in data["phases"])
    report = report_from_dict({**data, "schema": REPORT_SCHEMA})
    return Acceptance(report, data["run"], data["user"], data["results"], phases, data.get("bisection"))


def _phase(data: Mapping[str, Any]) -> PhaseReport:
    verdict = Verdict(data["verdict"]) if data["verdict"] else None
    lists = {name: tuple(data[name]) for name in ("jobs", "measurements")}
    more = {"state": PhaseState(data["state"]), "verdict": verdict, **lists}
    return PhaseReport(**{**data, **more})


def read(file: Path) -> Acceptance:
    """Read the recorded acceptance; raise UndeterminedError if it is missing or unreadable."""
    try:
        return acceptance_from_dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UndeterminedError("no acceptance recorded", path=str(file), hint="run `rackwright acceptance STACK`") from None
    except OSError as refused:
        raise UndeterminedError(f"cannot be read: {refused.strerror}", path=str(file), hint="check the file's type and mode") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UndeterminedError(
            f"invalid acceptance report: {error}", path=str(file), hint="run `rackwright acceptance STACK` to write it again"
        ) from None
