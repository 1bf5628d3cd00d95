"""`rackwright up` and `rackwright down`: Pulumi without prompts, and deletion without Pulumi state."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
from typing import Annotated

import typer

from rackwright import layout
from rackwright.cli import drift_schedule
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import sweep_aws


def up(stack: Annotated[str, typer.Argument(help="Stack name.")]) -> None:
    """Create, configure and verify a stack: `pulumi up` without prompts."""
    from rackwright.drivers import pulumi

    pulumi.install_prerequisites(stack)
    raise typer.Exit(_pulumi("up", stack))


def down(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    by_label: Annotated[
        bool, typer.Option("--by-label", help="Delete all resources with the stack's label; needs no Pulumi state.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --by-label on AWS: delete the resources and their data (default: list them).")
    ] = False,
    region: Annotated[str | None, typer.Option("--region", help="With --by-label on AWS: region (default: from the stack file).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --by-label: print the result as JSON.")] = False,
) -> None:
    """Delete a stack: `pulumi destroy` without prompts, or by label if the state is lost."""
    _tell_of_timers(stack)
    if not by_label:
        raise typer.Exit(_pulumi("destroy", stack))
    there = region or sweep_aws.region_of(stack)
    if there is not None:
        raise typer.Exit(sweep_aws.sweep(stack, there, yes=yes, as_json=as_json))
    removed = remove_by_label(stack)
    if as_json:
        typer.echo(json.dumps({"stack": stack, "removed": removed}))
    elif removed:
        typer.echo("\n".join(f"removed {item}" for item in removed))
    else:
        typer.echo(f"no container, volume, network or secret with the label of stack {stack}")


def _tell_of_timers(stack: str) -> None:
    """Report the stack's timers without removing them: the user installed them with another command."""
    if files := drift_schedule.installed_units(stack):
        typer.echo(f"{files[0]} still scans {stack} every night: run `rackwright drift-schedule {stack} --remove` to remove it", err=True)


def remove_by_label(stack: str) -> list[str]:
    """Delete everything with the stack's label, without Pulumi state, and return what was deleted.

    Raises UndeterminedError without podman, and RackwrightError if something remains.
    """
    from rackwright.drivers import podman
    from rackwright.operations import stack_files
    from rackwright.provider.lab import inotify_limits

    if shutil.which("podman") is None:
        raise UndeterminedError(
            "cannot check for leftovers: podman is not installed",
            hint=f"run `{layout.doctor_command()}` to see the command that installs podman",
        )
    removed = asyncio.run(podman.sweep(stack))
    inotify_limits.forget(stack)
    if paths.folder(stack).exists():
        stack_files.remove(stack)
        removed.append(f"folder {stack} of the state directory")
    return removed


def _pulumi(verb: str, stack: str) -> int:
    from rackwright.drivers import pulumi

    command = [str(pulumi.executable()), verb, "--stack", stack, "--yes", "--skip-preview"]
    # Pulumi handles Ctrl-C itself; subprocess.run would kill it a quarter of a second after KeyboardInterrupt.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, cwd=paths.project_root(), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
