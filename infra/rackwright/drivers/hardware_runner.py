"""Looks at the hardware of a live cluster in a child process, which leaves a report behind."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rackwright.drivers.check_runner import environment, python_module
from rackwright.drivers.process import run
from rackwright.inventory import paths

_LONGEST: Final = 120.0
"""Seconds; a round to a node has a limit far below."""


async def run_hardware(stack: str, section: str, *, in_jobs: bool) -> tuple[int, Path, str]:
    """Exit status of the look (0: the report is there), where the report is, what was complained about."""
    output = paths.results(stack) / "hardware.json"
    output.unlink(missing_ok=True)
    where = ["--inventory", str(paths.inventory(stack)), "--ssh-config", str(paths.ssh_config(stack)), "--output", str(output)]
    command = [*python_module("hardware"), *where, "--section", section]
    ended = await run([*command, *(["--in-job"] if in_jobs else [])], env=environment(), timeout=_LONGEST)
    return ended.status, output, ended.stderr
