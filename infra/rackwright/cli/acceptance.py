"""`rackwright acceptance`: run the acceptance test with jobs of an unprivileged user, phase by phase."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from rackwright import layout
from rackwright.catalog.checks import Level
from rackwright.cli.progress import show_progress
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up

_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")
"""Environment variables that the acceptance run, and the ssh processes it starts, inherit."""
_GRACE: Final = 40.0
"""Seconds that an interrupted run has to cancel its jobs and write the report."""


def accept(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    phase: Annotated[
        list[str] | None, typer.Option(help="Run only this phase (repeatable). The cluster verdict is left unchanged.")
    ] = None,
    level: Annotated[Level, typer.Option(help="Acceptance level: smoke stops before the measurements.")] = Level.FULL,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Continue after a phase that did not pass.")] = False,
    user: Annotated[str | None, typer.Option(help="User who submits the jobs (default: first user in the plan).")] = None,
    every: Annotated[bool, typer.Option("--all", help="List every result as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.acceptance/2).")] = False,
) -> None:
    """Run the acceptance test: jobs on idle nodes, phase by phase.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
    require_up(stack)
    if level is Level.CHECKS:
        raise InputError(
            "runs no jobs (expected smoke or full)", path="--level checks", hint=f"run `rackwright verify {stack}` for the read-only checks"
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
    """Run the acceptance test and return the path of its report.

    Delete the report of an earlier run first, so that a report that exists afterwards belongs to this run.
    """
    partial = any(option.startswith("--phase") for option in options)
    file = paths.partial_acceptance(stack) if partial else paths.acceptance(stack)
    file.unlink(missing_ok=True)
    try:
        status, said = asyncio.run(_accepted(stack, options))
    except KeyboardInterrupt:
        status, said = UndeterminedError.exit_code, "interrupted before the first phase"
    if status == InputError.exit_code:
        raise InputError(said)
    if not file.exists():
        raise UndeterminedError(f"the acceptance run wrote no report; output: {said or 'none'}", path=f"stack {stack}")
    return file


async def _accepted(stack: str, options: list[str]) -> tuple[int, str]:
    """Run the acceptance test while the nodes are powered on; return its exit status and standard error."""
    from rackwright.drivers.check_runner import python_module
    from rackwright.drivers.power import from_inventory, wake_nodes

    inventory = paths.inventory(stack)
    command = [
        *python_module("acceptance"),
        "--inventory",
        str(inventory),
        "--ssh-config",
        str(paths.ssh_config(stack)),
    ]
    async with wake_nodes(stack, from_inventory(inventory), show_progress):
        child = await asyncio.create_subprocess_exec(
            *(*command, *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ} | {"PYTHONPATH": str(layout.IMPORT_ROOT)},
            start_new_session=True,
        )
        assert child.stdout is not None and child.stderr is not None
        complaints = asyncio.create_task(child.stderr.read())
        try:
            async for line in child.stdout:
                if line.startswith(b"{"):
                    await show_progress(_told(line))
        except asyncio.CancelledError:
            child.send_signal(signal.SIGTERM)
            await asyncio.wait_for(child.wait(), _GRACE)
        return await child.wait(), (await complaints).decode().strip()


def _told(line: bytes) -> str:
    told = json.loads(line)
    return f"phase {told['number']}: {told['title']}"
