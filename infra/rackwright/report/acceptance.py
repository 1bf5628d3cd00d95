"""The report of an acceptance: the report of its checks, and the phases and jobs that they came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rackwright.errors import CouldNotTell
from rackwright.report.document import SCHEMA as REPORT_SCHEMA
from rackwright.report.document import Report, report_from_dict
from rackwright.report.verdict import Verdict

SCHEMA: Final = "rackwright.acceptance/1"


class PhaseState(StrEnum):
    """What became of a phase."""

    RAN = "ran"
    SKIPPED = "skipped"
    NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase of a run."""

    number: int
    name: str
    title: str
    state: PhaseState
    verdict: Verdict | None
    """None where it did not run."""
    reason: str
    """Why it was skipped or did not run; empty where it ran."""
    seconds: float
    folder: str
    """Where its files lie; empty where there are none."""
    jobs: tuple[Mapping[str, Any], ...] = ()
    figures: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """In the shape of the contract."""
        return {
            "number": self.number,
            "name": self.name,
            "title": self.title,
            "state": self.state.value,
            "verdict": self.verdict.value if self.verdict else None,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "folder": self.folder,
            "jobs": [dict(job) for job in self.jobs],
            "figures": [dict(figure) for figure in self.figures],
        }


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What an acceptance proved."""

    report: Report
    run: str
    user: str
    """In whose name the jobs ran."""
    results: str
    """Folder of the run: on the cluster's shared file system, or on this machine where there is none to write to."""
    phases: tuple[PhaseReport, ...]

    def as_dict(self) -> dict[str, Any]:
        """In the shape of the contract `rackwright.acceptance/1`: that of a report, and more."""
        phases = [phase.as_dict() for phase in self.phases]
        return {**self.report.as_dict(), "schema": SCHEMA, "run": self.run, "user": self.user, "results": self.results, "phases": phases}


def acceptance_from_dict(data: Mapping[str, Any]) -> Acceptance:
    """An acceptance as it was written; raises KeyError or ValueError where it is none."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"speaks {data['schema']}, not {SCHEMA}")
    return Acceptance(
        report=report_from_dict({**data, "schema": REPORT_SCHEMA}),
        run=data["run"],
        user=data["user"],
        results=data["results"],
        phases=tuple(_phase(phase) for phase in data["phases"]),
    )


def _phase(data: Mapping[str, Any]) -> PhaseReport:
    verdict = Verdict(data["verdict"]) if data["verdict"] else None
    more = {"state": PhaseState(data["state"]), "verdict": verdict, "jobs": tuple(data["jobs"]), "figures": tuple(data["figures"])}
    return PhaseReport(**{**data, **more})


def read(file: Path) -> Acceptance:
    """The acceptance on record; raises CouldNotTell where there is none that can be read."""
    try:
        return acceptance_from_dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CouldNotTell("no acceptance is on record", path=str(file), hint="`rackwright accept STACK` runs one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CouldNotTell(f"is no acceptance: {error}", path=str(file), hint="`rackwright accept STACK` writes it anew") from None
