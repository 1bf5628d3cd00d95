"""Reports on disk: report.json, .junit.xml and .html in the stack's folder, acceptance.json beside them, each replaced whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from rackwright.errors import CouldNotTell
from rackwright.report.acceptance import Acceptance
from rackwright.report.document import Report, report_from_dict
from rackwright.report.html import as_html
from rackwright.report.junit import as_junit
from rackwright.report.verdict import Verdict

RECORD: Final = "report.json"
JUNIT: Final = "report.junit.xml"
HTML: Final = "report.html"
JOBS: Final = "report.jobs.json"
ACCEPTANCE: Final = "acceptance.json"
ACCEPTANCE_JUNIT: Final = "acceptance.junit.xml"
ACCEPTANCE_PARTIAL: Final = "acceptance.partial.json"
FABRIC: Final = "fabric.svg"
PARTIAL: Final = "partial.json"
"""A run over some nodes only is no verdict on the cluster and leaves the record alone."""


def write(report: Report, folder: Path) -> Path:
    """Put a report on record; a partial one beside it. The path of its JSON."""
    if report.partial:
        return _replace(folder / PARTIAL, _json(report))
    _replace(folder / JUNIT, as_junit(report))
    _replace(folder / HTML, as_html(report, _picture(folder)))
    if report.by_jobs in (Verdict.PASSED, Verdict.FAILED):  # Jobs that were not sent, because nodes are at work, prove nothing new.
        _replace(folder / JOBS, _json(report))
    return _replace(folder / RECORD, _json(report))


def _picture(folder: Path) -> str:
    """The fabric as it was planned, where the stack has one."""
    file = folder / FABRIC
    return file.read_text(encoding="utf-8") if file.exists() else ""


def write_json(report: Report, folder: Path) -> Path:
    """Only the JSON, for a run that has just begun. The other forms of an earlier report go: they would say what is not known any more."""
    if report.partial:
        return _replace(folder / PARTIAL, _json(report))
    for other in (JUNIT, HTML):
        (folder / other).unlink(missing_ok=True)
    return _replace(folder / RECORD, _json(report))


def write_acceptance(acceptance: Acceptance, folder: Path, *, ended: bool = True) -> Path:
    """Put an acceptance on record, beside the report; one of some phases only leaves the record alone. The path of its JSON.

    One that has not `ended` takes the other forms of an earlier one away: they would say what is not known any more.
    """
    text = json.dumps(acceptance.as_dict(), indent=1, ensure_ascii=False) + "\n"
    if acceptance.report.partial:
        return _replace(folder / ACCEPTANCE_PARTIAL, text)
    if ended:
        _replace(folder / ACCEPTANCE_JUNIT, as_junit(acceptance.report))
    else:
        (folder / ACCEPTANCE_JUNIT).unlink(missing_ok=True)
    return _replace(folder / ACCEPTANCE, text)


def read(file: Path) -> Report:
    """The report on record; raises CouldNotTell where there is none that can be read."""
    try:
        return report_from_dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CouldNotTell("no verdict is on record", path=str(file), hint="`rackwright verify STACK` looks now") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CouldNotTell(f"is no report: {error}", path=str(file), hint="`rackwright verify STACK` writes it anew") from None


def _json(report: Report) -> str:
    return json.dumps(report.as_dict(), indent=1, ensure_ascii=False) + "\n"


def _replace(file: Path, text: str) -> Path:
    """Write beside and rename, so that a reader sees the old report or the new one and never half of either."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
    return file
