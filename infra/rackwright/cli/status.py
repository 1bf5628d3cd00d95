"""`rackwright status`: show the last verdict, its level, its age and whether it applies to the current plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rackwright.report.verdict import Verdict

if TYPE_CHECKING:
    from rackwright.operations.verification import RecordedReport

_CHANGED = "the plan has changed since this verdict, which applies to the previous plan"


def status(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    every: Annotated[bool, typer.Option("--all", help="List every result, not one row per subject.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.report/1).")] = False,
) -> None:
    """Show the last verdict, its level and its age, or the failures that a later refresh found.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
    from rackwright.operations import verification

    found = verification.last_report(stack)
    if as_json:
        typer.echo(found.text, nl=False)
    else:
        _show(found, every=every)
    raise typer.Exit((Verdict.UNKNOWN if found.plan_changed else found.report.verdict).exit_code)


def _show(found: RecordedReport, *, every: bool) -> None:
    from rich.console import Console

    from rackwright.report.humanize import verdict_line
    from rackwright.report.terminal import show

    console = Console()
    show(found.report, console, every=every)
    console.print(f"  {verdict_line(found.report)}", style="dim", highlight=False)
    if found.plan_changed:
        console.print(f"  {_CHANGED}", style="yellow", highlight=False)
