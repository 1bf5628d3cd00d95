"""What identifies a demo run, and its record in the stack's folder."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackwright.errors import RackwrightError
from rackwright.files import write_atomic
from rackwright.inventory import paths
from rackwright.operations.demo.following import Following, Say
from rackwright.report import store


def run_name(kind: str) -> str:
    """Return a name for a run that no other run has, with its kind and time."""
    return f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.urandom(2).hex()}"


def identify(following: Following, name: str, started: datetime) -> dict[str, Any]:
    """Return which run this is, of whom, and what its figures apply to."""
    return {
        "stack": following.running.name,
        "target": following.running.inventory.target,
        "run": name,
        "user": following.site.user,
        "folder": following.job.run,
        "started": started.isoformat(timespec="seconds"),
        "evidence": _evidence(following),
    }


def _evidence(following: Following) -> list[str]:
    first = next((line for line in following.lines if line["event"] == "start"), {})
    parts = [first["device"], first.get("backend"), f"PyTorch {first['torch']}"] if first else []
    return [
        *([", ".join(part for part in parts if part)] if first else []),
        *(f"simulated: {name}" for name in sorted(following.running.inventory.simulated)),
        *(["figures do not apply to GPUs"] if not following.site.gpus else []),
    ]


def record(stack: str, document: dict[str, Any], say: Say) -> Path:
    """Record a run in the stack's folder, and show it on the report page; return the file."""
    folder = paths.demos(stack)
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{document['run']}.json"
    write_atomic(file, json.dumps(document, indent=2) + "\n")
    try:
        store.write_html(paths.folder(stack))
    except RackwrightError as error:  # The run has its record; the page is written again by the next run of checks.
        say(str(error))
    return file
