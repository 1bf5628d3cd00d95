"""`rackwright status`: the verdict on record, how old it is, and whether it still is about the plan."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.cli.live import not_up
from rackwright.errors import CouldNotTell, RackwrightError
from rackwright.handover import paths
from rackwright.report.document import Report
from rackwright.report.verdict import Verdict

_CHANGED = "the plan has changed since: this verdict is about another cluster"


def status(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    every: Annotated[bool, typer.Option("--every", help="List every result, not one row per subject.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON (rackwright.report/1).")] = False,
) -> None:
    """Print the verdict on record, or what a later refresh found wrong. Exit codes: 0 as declared, 1 not, 2 bad input, 3 could not tell."""
    from rackwright.report.store import read

    file = paths.report(stack)
    if not paths.folder(stack).is_dir():
        raise not_up(stack)
    report = read(file)
    later = _later_and_worse(stack, report)
    if later:
        file, report = paths.refresh_report(stack), later
    changed = _plan_changed(stack, report)
    if as_json:
        typer.echo(file.read_text(encoding="utf-8"), nl=False)
    else:
        _show(report, changed=changed, every=every)
    raise typer.Exit((Verdict.UNKNOWN if changed else report.verdict).exit_code)


def _later_and_worse(stack: str, report: Report) -> Report | None:
    """What a refresh has found since the verdict was put on record, where that was not good."""
    from rackwright.report.store import read

    try:
        later = read(paths.refresh_report(stack))
    except CouldNotTell:
        return None
    return later if later.started > report.started and later.verdict.exit_code else None


def _show(report: Report, *, changed: bool, every: bool) -> None:
    from rich.console import Console

    from rackwright.report.age import proof
    from rackwright.report.terminal import show

    console = Console()
    show(report, console, every=every)
    console.print(f"  {proof(report)}", style="dim", highlight=False)
    if changed:
        console.print(f"  {_CHANGED}", style="yellow", highlight=False)


def _plan_changed(stack: str, report: Report) -> bool:
    """Whether the hand-over is of another plan than the report; one that cannot be read proves nothing."""
    from rackwright.report.declared import load

    try:
        return load(paths.inventory(stack)).plan != report.plan
    except RackwrightError:
        return True
