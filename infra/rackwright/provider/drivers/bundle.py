"""Runs the builder of the Kubernetes bundle and streams what it says."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rackwright.errors import RackwrightError
from rackwright.handover import paths
from rackwright.provider.drivers.process import stream

Say = Callable[[str], Awaitable[None]]
CONTENTS: Final = "bundle.json"
"""The list of what is in it, by which a finished bundle is known."""


async def provide(version: str, extras: Sequence[str], info: Say, status: Say) -> str:
    """The folder of a finished bundle of that release, with the parts that are asked for."""
    told: list[dict[str, Any]] = []
    stages: set[str] = set()

    async def heard(line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        told.append(event)
        stage = event.get("stage")
        if stage is None:
            return
        said = f"bundle {stage}/{event['of']}: {event['what']}"
        if said not in stages:
            stages.add(said)
            await info(said)
        await status(said + (f", {event['detail']}" if event.get("detail") else ""))

    asked = [f"--with={extra}" for extra in extras]
    ended = await stream([str(paths.project_root() / "tools" / "kubernetes" / "build"), "--json", *asked], heard)
    folder = next((event["bundle"] for event in reversed(told) if "bundle" in event), None)
    if not ended.ok or folder is None:
        raise RackwrightError(
            f"the Kubernetes bundle was not built:\n{ended.stderr.strip() or 'the builder said nothing'}",
            hint="`tools/kubernetes/build` builds it by hand; what was built so far is kept",
        )
    built = json.loads(Path(folder, CONTENTS).read_text(encoding="utf-8"))["kubernetes"]
    if built != version:
        raise RackwrightError(
            f"scheduler.version: the bundle is of Kubernetes {built}, the stack asks for {version}",
            hint=f"use version {built}, or `source: packages` where the vendor's repository answers",
        )
    return str(folder)
