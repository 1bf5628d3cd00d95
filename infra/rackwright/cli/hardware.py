"""`rackwright hardware`: show each node's hardware and compare it with the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rackwright.report.hardware.document import Section


def hardware(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    section: Annotated[Section, typer.Argument(help="Section to show.")] = Section.SUMMARY,
    job: Annotated[bool, typer.Option("--in-job", help="Query each worker from inside a Slurm job, as a user's program sees it.")] = False,
    since: Annotated[
        Path | None, typer.Option("--since", metavar="FILE", help="Compare with an earlier report, which `--json` printed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.hardware/4).")] = False,
) -> None:
    """Show each node's CPUs, memory, GPUs, fabric and storage, and compare them with the plan.

    `--since` joins GPUs by UUID, adapters by node GUID, disks by their by-id names and interfaces by MAC address, never by name.

    Exit codes: 0 as planned, 1 not as planned, 2 invalid input, 3 undetermined.
    """
    from rackwright.operations.hardware import query_hardware

    found = query_hardware(stack, section, in_jobs=job, since=since)
    if as_json:
        typer.echo(found.text, nl=False)
    else:
        _show(found.report)
    raise typer.Exit(found.verdict.exit_code)


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console

    from rackwright.report.hardware.terminal import render

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(render(report))
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))  # Rich fills the last column of a table with spaces.
