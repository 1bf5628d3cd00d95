"""Acceptance test of a live cluster, run in a child process that submits the jobs and writes a report."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.drivers.check_runner import Progress, python_module

_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")
"""Environment variables that the acceptance run, and the ssh processes it starts, inherit."""
_GRACE: Final = 40.0
"""Seconds that an interrupted run has to cancel its jobs and write the report."""


async def run_acceptance(inventory: Path, ssh_config: Path, options: Sequence[str], on_progress: Progress) -> tuple[int, str]:
    """Run the acceptance test; return its exit status and standard error.

    If the asyncio task is cancelled, terminate the child, which has 40 s to write its report.
    Raise TimeoutError if it needs longer.
    """
    command = [*python_module("acceptance"), "--inventory", str(inventory), "--ssh-config", str(ssh_config), *options]
    child = await asyncio.create_subprocess_exec(
        *command,
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
                await on_progress(_progress(line))
    except asyncio.CancelledError:
        child.send_signal(signal.SIGTERM)
        await asyncio.wait_for(child.wait(), _GRACE)
    return await child.wait(), (await complaints).decode("utf-8", "replace").strip()


def _progress(line: bytes) -> str:
    event = json.loads(line)
    return str(event["text"]) if "text" in event else f"phase {event['number']}: {event['title']}"
