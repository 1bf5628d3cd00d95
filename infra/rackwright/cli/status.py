"""`rackwright status`: show the last verdict, its level, its age and whether it applies to the current plan."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import not_up
from rackwright.report.document import Report
from rackwright.report.verdict import Verdict

_CHANGED = "the plan has changed since this verdict, which applies to the previous plan"


def status(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    every: Annotated[bool, typer.Option("--all", help="List every result, not one row per subject.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.report/1).")] = False,
) -> None:
    """Show the last verdict, its level and its age, or the failures that a later refresh found.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
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
    """Return the report of a refresh that is newer than the verdict and did not pass, or None."""
    from rackwright.report.store import read

    try:
        later = read(paths.refresh_report(stack))
    except UndeterminedError:
        return None
    return later if later.started > report.started and later.verdict.exit_code else None


def _show(report: Report, *, changed: bool, every: bool) -> None:
    from rich.console import Console

    from rackwright.report.humanize import verdict_line
    from rackwright.report.terminal import show

    console = Console()
    show(report, console, every=every)
    console.print(f"  {verdict_line(report)}", style="dim", highlight=False)
    if changed:
        console.print(f"  {_CHANGED}", style="yellow", highlight=False)


def _plan_changed(stack: str, report: Report) -> bool:
    """Return whether the inventory belongs to another plan than the report; True if the inventory cannot be read."""
    from rackwright.inventory.reader import load

    try:
        return load(paths.inventory(stack)).plan != report.plan
    except RackwrightError:
        return True
