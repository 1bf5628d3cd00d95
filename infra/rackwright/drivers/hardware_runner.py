"""Collection of the hardware of a live cluster, in a child process that writes a report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rackwright.drivers.check_runner import environment, python_module
from rackwright.drivers.process import run
from rackwright.inventory import paths

_LONGEST: Final = 120.0
"""Time limit of a run, in seconds. The limit per node is far shorter."""


async def run_hardware(stack: str, section: str, *, in_jobs: bool) -> tuple[int, Path, str]:
    """Collect the hardware; return the exit status (0: the report exists), the report's path, and the text on standard error."""
    output = paths.results(stack) / "hardware.json"
    output.unlink(missing_ok=True)
    where = ["--inventory", str(paths.inventory(stack)), "--ssh-config", str(paths.ssh_config(stack)), "--output", str(output)]
    command = [*python_module("hardware"), *where, "--section", section]
    ended = await run([*command, *(["--in-job"] if in_jobs else [])], env=environment(), timeout=_LONGEST)
    return ended.status, output, ended.stderr
