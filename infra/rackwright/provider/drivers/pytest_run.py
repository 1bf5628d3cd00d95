"""Runs the checks of a live cluster in a child process, which leaves raw results and a report behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackwright.handover import paths
from rackwright.provider.drivers.process import stream

_LONGEST = 900.0
"""Seconds a run may take; each check has a time-out of its own far below."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended, and where its report is."""

    status: int
    report: Path
    said: str


async def run_checks(
    *,
    inventory: Path,
    ssh_config: Path,
    results: Path,
    level: str,
    kinds: str = "all",
    nodes: Sequence[str] = (),
    on_progress: Callable[[str], Awaitable[None]],
) -> RunOutcome:
    """Run them; raw results go into `results`, the report into the folder above it."""
    command = [
        *(sys.executable, str(paths.project_root() / "tests" / "cluster")),
        *("--inventory", str(inventory), "--ssh-config", str(ssh_config), "--results", str(results), "--level", level, "--kinds", kinds),
        *(("--nodes", ",".join(nodes)) if nodes else ()),
    ]

    shown = ""

    async def on_line(line: str) -> None:
        nonlocal shown
        told = json.loads(line) if line.startswith("{") else {}
        subject = str(told.get("id", "")).split(".")[0]
        if subject != shown:  # one line per subject: without a terminal each is printed
            shown = subject
            await on_progress(f"checking {subject} ({told['done']} of {told['of']})")

    results.mkdir(mode=0o700, parents=True, exist_ok=True)
    ended = await stream(command, on_line, timeout=_LONGEST)
    return RunOutcome(ended.status, results.parent / "report.json", ended.stderr)
