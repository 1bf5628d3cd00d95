"""`rackwright acceptance`: run the acceptance test with jobs of an unprivileged user, phase by phase."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.catalog.checks import Level
from rackwright.cli.progress import show_message, show_progress


def accept(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    phase: Annotated[
        list[str] | None, typer.Option(help="Run only this phase (repeatable). The cluster verdict is left unchanged.")
    ] = None,
    level: Annotated[Level, typer.Option(help="Acceptance level: smoke stops before the measurements.")] = Level.FULL,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Continue after a phase that did not pass.")] = False,
    user: Annotated[str | None, typer.Option(help="User who submits the jobs (default: first user in the plan).")] = None,
    every: Annotated[bool, typer.Option("--all", help="List every result as well.")] = False,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Search the node, pair, leaf or rail that makes a collective slow, at once or after --phase.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.acceptance/2).")] = False,
) -> None:
    """Run the acceptance test: jobs on idle nodes, phase by phase.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
    from rackwright.operations import acceptance

    found = acceptance.accept(
        stack, level, show_progress, show_message, phases=phase or (), keep_going=keep_going, user=user, bisect=bisect
    )
    if as_json:
        typer.echo(found.text, nl=False)
    else:
        from rich.console import Console

        from rackwright.report.acceptance_terminal import show_acceptance

        show_acceptance(found.acceptance, Console(), every=every)
    raise typer.Exit(found.acceptance.report.verdict.exit_code)
