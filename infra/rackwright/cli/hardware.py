"""`rackwright hardware`: what the nodes have, seen now, beside what the plan says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rackwright.cli.connect import must_run_slurm
from rackwright.cli.live import must_be_up
from rackwright.errors import BadInput, CouldNotTell
from rackwright.handover import paths
from rackwright.report.hardware.document import Section
from rackwright.report.verdict import Verdict


def hardware(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    section: Annotated[Section, typer.Argument(help="What to show.")] = Section.SUMMARY,
    job: Annotated[bool, typer.Option("--job", help="Look from inside a Slurm job on each worker: what a program sees there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON (rackwright.hardware/2).")] = False,
) -> None:
    """CPUs, memory, GPUs, fabric and storage of every node, as seen now. Exit codes: 0 as planned, 1 not, 2 bad input, 3 could not tell."""
    must_be_up(stack)
    if job:
        must_run_slurm(stack, "--job")
    text = _look(stack, section, job).read_text(encoding="utf-8")
    report = json.loads(text)
    if as_json:
        typer.echo(text, nl=False)
    else:
        _show(report)
    raise typer.Exit(Verdict(report["verdict"]).exit_code)


def _look(stack: str, section: Section, job: bool) -> Path:
    """Look; where the report is."""
    try:
        status, file, said = asyncio.run(_looked(stack, section, job))
    except KeyboardInterrupt:
        raise CouldNotTell("interrupted", path=f"stack {stack}") from None
    if status == BadInput.exit_code:
        raise BadInput(said.strip())
    if not file.exists():
        raise CouldNotTell(f"the look left no report; it said: {said.strip() or 'nothing'}", path=f"stack {stack}")
    return file


async def _looked(stack: str, section: Section, job: bool) -> tuple[int, Path, str]:
    """How the look ended; the nodes that it is about are awake."""
    from rackwright.provider.drivers.awake import awake, handed_over
    from rackwright.provider.drivers.hardware_run import run_hardware

    paths.prepare(stack)
    async with awake(stack, handed_over(paths.inventory(stack)), _silent):
        return await run_hardware(stack, section.value, in_jobs=job)


async def _silent(_text: str) -> None:
    """Nobody watches a look of a second."""


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console

    from rackwright.report.hardware.terminal import render

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(render(report))
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))  # Rich fills the last column of a table with spaces.
