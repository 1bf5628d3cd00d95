"""Reports on disk: report.json, .junit.xml and .html in the stack's folder, and acceptance.json, each replaced atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from rackwright.files import write_atomic
from rackwright.report.acceptance import Acceptance
from rackwright.report.demo_records import last_records
from rackwright.report.document import Report, read
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
"""Report of a run over some nodes, which has no verdict on the cluster and does not replace the recorded one."""


def write(report: Report, folder: Path) -> Path:
    """Record a report, or write a partial one next to it. Return the path of the JSON file."""
    if report.partial:
        return _replace(folder / PARTIAL, _json(report))
    _replace(folder / JUNIT, as_junit(report))
    _replace(folder / HTML, _page(report, folder))
    if report.job_verdict in (Verdict.PASSED, Verdict.FAILED):  # Skipped job checks on busy nodes do not replace the earlier result.
        _replace(folder / JOBS, _json(report))
    return _replace(folder / RECORD, _json(report))


def write_html(folder: Path) -> None:
    """Write the page of the recorded report again, with the demos that ran since. Do nothing without a page: no run of checks has ended.

    Raises UndeterminedError if the recorded report cannot be read.
    """
    if (folder / HTML).exists():
        _replace(folder / HTML, _page(read(folder / RECORD), folder))


def _page(report: Report, folder: Path) -> str:
    return as_html(report, _picture(folder), last_records(folder))


def _picture(folder: Path) -> str:
    """Return the picture of the planned fabric, or an empty text."""
    file = folder / FABRIC
    return file.read_text(encoding="utf-8") if file.exists() else ""


def write_json(report: Report, folder: Path) -> Path:
    """Write only the JSON, for a run that has just started. Delete the other formats of an earlier report, which are outdated."""
    if report.partial:
        return _replace(folder / PARTIAL, _json(report))
    for other in (JUNIT, HTML):
        (folder / other).unlink(missing_ok=True)
    return _replace(folder / RECORD, _json(report))


def write_acceptance(acceptance: Acceptance, folder: Path, *, ended: bool = True) -> Path:
    """Record an acceptance, or write a partial one next to it. Return the path of the JSON file.

    If it has not `ended`, delete the other formats of an earlier acceptance, which are outdated.
    """
    text = json.dumps(acceptance.as_dict(), indent=1, ensure_ascii=False) + "\n"
    if acceptance.report.partial:
        return _replace(folder / ACCEPTANCE_PARTIAL, text)
    if ended:
        _replace(folder / ACCEPTANCE_JUNIT, as_junit(acceptance.report))
    else:
        (folder / ACCEPTANCE_JUNIT).unlink(missing_ok=True)
    return _replace(folder / ACCEPTANCE, text)


def _json(report: Report) -> str:
    return json.dumps(report.as_dict(), indent=1, ensure_ascii=False) + "\n"


def _replace(file: Path, text: str) -> Path:
    """Write a report and create its folder. Readers see the old or the new file, never a part; the umask determines its mode."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(file, text)
    return file
