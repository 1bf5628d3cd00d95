"""`rackwright accept`: prove a live cluster by jobs of an ordinary user, phase by phase."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from rackwright import layout
from rackwright.catalog.checks import Level
from rackwright.cli.live import must_be_up
from rackwright.errors import BadInput, CouldNotTell
from rackwright.handover import paths

_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")
"""What the run, and ssh below it, may see of this process's environment."""
_GRACE: Final = 40.0
"""Seconds for cancelling what runs and writing what is known, once somebody has interrupted it."""


def accept(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    phase: Annotated[list[str] | None, typer.Option(help="Only this phase (may be given again): no verdict on the cluster.")] = None,
    level: Annotated[Level, typer.Option(help="How far to go: smoke ends before anything is measured.")] = Level.FULL,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Go on after a phase that did not pass.")] = False,
    user: Annotated[str | None, typer.Option(help="In whose name jobs run; the first user of the plan where nobody is named.")] = None,
    every: Annotated[bool, typer.Option("--every", help="List every result, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON (rackwright.acceptance/1).")] = False,
) -> None:
    """Accept a cluster: jobs on its idle nodes, phase by phase. Exit codes: 0 as declared, 1 not, 2 bad input, 3 could not tell."""
    must_be_up(stack)
    if level is Level.CHECKS:
        raise BadInput(
            "runs no jobs, and the acceptance is made of them", path="--level checks", hint=f"`rackwright verify {stack}` looks only"
        )
    options = [*(f"--phase={name}" for name in phase or ()), f"--level={level.value}", *(["--keep-going"] if keep_going else [])]
    file = _run(stack, [*options, *([f"--user={user}"] if user else [])])
    from rackwright.report.acceptance import read

    found = read(file)
    if as_json:
        typer.echo(file.read_text(encoding="utf-8"), nl=False)
    else:
        from rich.console import Console

        from rackwright.report.acceptance_terminal import show_acceptance

        show_acceptance(found, Console(), every=every)
    raise typer.Exit(found.report.verdict.exit_code)


def _run(stack: str, options: list[str]) -> Path:
    """Run it; where its report is. The report of an earlier run goes first: one that is found afterwards is of this run."""
    partial = any(option.startswith("--phase") for option in options)
    file = paths.acceptance_of_phases(stack) if partial else paths.acceptance(stack)
    file.unlink(missing_ok=True)
    try:
        status, said = asyncio.run(_accepted(stack, options))
    except KeyboardInterrupt:
        status, said = CouldNotTell.exit_code, "it was interrupted before it began"
    if status == BadInput.exit_code:
        raise BadInput(said)
    if not file.exists():
        raise CouldNotTell(f"the acceptance left no report; it said: {said or 'nothing'}", path=f"stack {stack}")
    return file


async def _accepted(stack: str, options: list[str]) -> tuple[int, str]:
    """How the run ended, and what it complained about; the nodes that it is about are awake."""
    from rackwright.provider.drivers.awake import awake, handed_over

    inventory = paths.inventory(stack)
    command = [
        str(paths.project_root() / layout.ACCEPTANCE),
        "--inventory",
        str(inventory),
        "--ssh-config",
        str(paths.ssh_config(stack)),
    ]
    async with awake(stack, handed_over(inventory), _progress):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            start_new_session=True,
        )
        assert child.stdout is not None and child.stderr is not None
        complaints = asyncio.create_task(child.stderr.read())
        try:
            async for line in child.stdout:
                if line.startswith(b"{"):
                    await _progress(_told(line))
        except asyncio.CancelledError:
            child.send_signal(signal.SIGTERM)
            await asyncio.wait_for(child.wait(), _GRACE)
        return await child.wait(), (await complaints).decode().strip()


def _told(line: bytes) -> str:
    told = json.loads(line)
    return f"phase {told['number']}: {told['title']}"


async def _progress(text: str) -> None:
    """On a terminal, one line that is overwritten; nowhere else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
