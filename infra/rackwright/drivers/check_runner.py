"""Checks of a live cluster, run in a child process that writes raw results and a report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.drivers.process import stream

_LONGEST: Final = 900.0
"""Time limit of a run, in seconds. Each check has its own, far shorter time-out."""
_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "RACKWRIGHT_HOME", "SSH_AUTH_SOCK")
"""Variables that the checks, with their podman and ssh, inherit from this process. PYTEST_ADDOPTS must not select what runs."""

Progress = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class RunOutcome:
    """Exit status of a run (0 as declared, 1 not as declared, 2 bad input, 3 unknown), and the path of its report."""

    status: int
    report: Path
    """Does not exist if the checks did not start."""
    stderr: str
    """Text on standard error."""


async def run_checks(
    *,
    inventory: Path,
    ssh_config: Path,
    results: Path,
    level: str,
    kinds: str = "all",
    nodes: Sequence[str] = (),
    on_progress: Progress,
) -> RunOutcome:
    """Run the checks. Write raw results into `results` and the report into the folder above. Cancelling ends the process group.

    Delete the report of an earlier run first, so that an existing report belongs to this run, even to a killed one.
    """
    report = results.parent / ("partial.json" if nodes or kinds == "job" else "report.json")
    results.mkdir(mode=0o700, parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    ended = await stream(
        _command(inventory, ssh_config, results, level, kinds, nodes), _line_reporter(on_progress), env=environment(), timeout=_LONGEST
    )
    return RunOutcome(ended.status, report, ended.stderr)


def _command(inventory: Path, ssh_config: Path, results: Path, level: str, kinds: str, nodes: Sequence[str]) -> list[str]:
    where = ["--inventory", str(inventory), "--ssh-config", str(ssh_config), "--results", str(results)]
    which = ["--level", level, "--kinds", kinds, *(("--nodes", ",".join(nodes)) if nodes else ())]
    return [*python_module("cluster"), *where, *which]


def python_module(name: str) -> list[str]:
    """Return the command that runs `rackwright.checks.<name>`, and nothing from the working directory, with `environment()`."""
    return [sys.executable, "-P", "-m", f"rackwright.checks.{name}"]


def environment() -> dict[str, str]:
    """Return the environment of a process that runs checks: the inherited variables, and the path of the package."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, "PYTHONPATH": str(layout.IMPORT_ROOT), "PYTHONUNBUFFERED": "1"}


def _line_reporter(on_progress: Progress) -> Callable[[str], Awaitable[None]]:
    """Return a callback that reports one line per subject. Without a terminal, each line is printed."""
    shown = ""

    async def on_line(line: str) -> None:
        nonlocal shown
        event = json.loads(line) if line.startswith("{") else {}
        subject = str(event.get("id", "")).split(".")[0]
        if subject and subject != shown:
            shown = subject
            await on_progress(f"checking {subject} ({event['done']} of {event['of']})")

    return on_line
