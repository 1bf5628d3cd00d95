"""`rackwright up` and `rackwright down`: Pulumi with the options one would type, and the removal that needs no state."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
from typing import Annotated

import typer

from rackwright.cli import cloud, schedule
from rackwright.errors import CouldNotTell
from rackwright.handover import paths


def up(stack: Annotated[str, typer.Argument(help="The stack's name.")]) -> None:
    """Bring a stack up and prove it: `pulumi up` without questions."""
    raise typer.Exit(_pulumi("up", stack))


def down(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    by_label: Annotated[bool, typer.Option("--by-label", help="Without state: remove whatever carries the stack's label.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --by-label on AWS: remove what is found, with its data. Else it is listed.")
    ] = False,
    region: Annotated[str | None, typer.Option("--region", help="With --by-label on AWS, where there is no stack file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was removed by label, as JSON.")] = False,
) -> None:
    """Remove a stack: `pulumi destroy` without questions, or by label where the state is lost."""
    _tell_of_timers(stack)
    if not by_label:
        raise typer.Exit(_pulumi("destroy", stack))
    there = region or cloud.region_of(stack)
    if there is not None:
        raise typer.Exit(cloud.sweep(stack, there, yes=yes, as_json=as_json))
    removed = remove_by_label(stack)
    if as_json:
        typer.echo(json.dumps({"stack": stack, "removed": removed}))
    elif removed:
        typer.echo("\n".join(f"removed {item}" for item in removed))
    else:
        typer.echo(f"nothing is left of stack {stack}: no container, volume, network or secret carries its label")


def _tell_of_timers(stack: str) -> None:
    """Timers are the user's, made by another command: they are named, not taken away."""
    if files := schedule.still_there(stack):
        typer.echo(f"{files[0]} goes on looking at {stack} every night: `rackwright schedule {stack} --remove` ends that", err=True)


def remove_by_label(stack: str) -> list[str]:
    """Remove everything labelled with the stack, without state; what was removed. Raises when something stays."""
    from rackwright.provider import lab_limits, stack_files
    from rackwright.provider.drivers import podman

    if shutil.which("podman") is None:
        raise CouldNotTell(
            "podman is not installed, so nobody can look what is left", hint="`make doctor` names the command that installs it"
        )
    removed = asyncio.run(podman.sweep(stack))
    lab_limits.forget(stack)
    if paths.folder(stack).exists():
        stack_files.remove(stack)
        removed.append(f"folder {stack} of the home")
    return removed


def _pulumi(verb: str, stack: str) -> int:
    from rackwright.cli.move import engine

    command = [str(engine()), verb, "--stack", stack, "--yes", "--skip-preview"]
    # Ctrl-C is the engine's: subprocess.run kills its child a quarter of a second after KeyboardInterrupt.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, cwd=paths.project_root(), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
