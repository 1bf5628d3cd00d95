"""`rackwright hardware`: show each node's hardware and compare it with the plan."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_slurm, require_up
from rackwright.report.hardware.document import Section
from rackwright.report.verdict import Verdict


def hardware(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    section: Annotated[Section, typer.Argument(help="Section to show.")] = Section.SUMMARY,
    job: Annotated[bool, typer.Option("--in-job", help="Query each worker from inside a Slurm job, as a user's program sees it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.hardware/3).")] = False,
) -> None:
    """Show each node's CPUs, memory, GPUs, fabric and storage, and compare them with the plan.

    Exit codes: 0 as planned, 1 not as planned, 2 invalid input, 3 undetermined.
    """
    require_up(stack)
    if job:
        require_slurm(stack, "--in-job")
    text = _look(stack, section, job).read_text(encoding="utf-8")
    report = json.loads(text)
    if as_json:
        typer.echo(text, nl=False)
    else:
        _show(report)
    raise typer.Exit(Verdict(report["verdict"]).exit_code)


def _look(stack: str, section: Section, job: bool) -> Path:
    """Query the nodes and return the path of the report."""
    try:
        status, file, said = asyncio.run(_looked(stack, section, job))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted", path=f"stack {stack}") from None
    if status == InputError.exit_code:
        raise InputError(said.strip())
    if not file.exists():
        raise UndeterminedError(f"the hardware query wrote no report; output: {said.strip() or 'none'}", path=f"stack {stack}")
    return file


async def _looked(stack: str, section: Section, job: bool) -> tuple[int, Path, str]:
    """Query the nodes while they are powered on; return exit status, report path and output."""
    from rackwright.drivers.hardware_runner import run_hardware
    from rackwright.drivers.power import from_inventory, wake_nodes

    paths.prepare(stack)
    async with wake_nodes(stack, from_inventory(paths.inventory(stack)), _silent):
        return await run_hardware(stack, section.value, in_jobs=job)


async def _silent(_text: str) -> None:
    """Print no progress: a query takes about a second."""


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console

    from rackwright.report.hardware.terminal import render

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(render(report))
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))  # Rich fills the last column of a table with spaces.
