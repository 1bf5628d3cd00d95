"""Running jobs, and what is suspicious about them, on the terminal; with the command's exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rackwright.report.jobs.document import JobsReport


def print_jobs(report: JobsReport, *, as_json: bool) -> int:
    """Print the table and the findings, and remarks on standard error. Return the exit code."""
    from rackwright.cli.render.logs import print_remark
    from rackwright.cli.render.table import table
    from rackwright.report.jobs import document

    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
        return report.exit_code
    if report.jobs:
        typer.echo(table(document.heads(report), document.rows(report)))
        if shown := list(document.lines(report)):
            typer.echo("\n" + "\n".join(shown))
    else:
        print_remark("no job has nodes")
    for remark in report.remarks:
        print_remark(remark)
    return report.exit_code
