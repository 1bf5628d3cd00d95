"""Log entries, what is missing of them, and why a job ended, on the terminal; with the command's exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from rackwright.report.logs.document import LogEntry, LogReport
    from rackwright.report.logs.job_document import JobReport

_UNDETERMINED: Final = 3
"""Exit code "undetermined" (rackwright.errors)."""


def print_logs(report: LogReport, *, as_json: bool) -> int:
    """Print the entries, and remarks on standard error. Return 3 if a node that was asked did not answer."""
    from rackwright.report.logs import terminal

    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        for line in terminal.lines(report):
            typer.echo(line)
        for remark in terminal.remarks(report):
            print_remark(remark)
    return _UNDETERMINED if any(not node.answered and not node.is_out for node in report.nodes) else 0


def print_job(report: JobReport, *, as_json: bool) -> int:
    """Print the summary of a job, its entries, and remarks on standard error. Return 3 if the job or a node is undetermined."""
    from rackwright.report.logs import job_document, terminal

    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        summary = list(job_document.summary(report))
        for line in [*summary, *([""] if summary and report.logs.entries else []), *terminal.lines(report.logs)]:
            typer.echo(line)
        for remark in [*report.remarks, *terminal.remarks(report.logs)]:
            print_remark(remark)
    return 0 if report.is_determined else _UNDETERMINED


def entry_printer(*, as_json: bool) -> Callable[[LogEntry], None]:
    """Return a function that prints one entry, and exits when the reader of standard output has closed."""
    from rackwright.cli.standard_streams import end_if_unread
    from rackwright.report.logs import terminal

    def show(entry: LogEntry) -> None:
        typer.echo(json.dumps(entry.as_dict()) if as_json else terminal.line(entry))
        end_if_unread()

    return show


def print_remark(text: str) -> None:
    """Print what a reader must know of the entries on standard error, so that a pipe gets entries only."""
    from rackwright.printable import printable

    typer.echo(f"! {printable(text)}", err=True)
