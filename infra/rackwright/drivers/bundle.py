"""Build of the Kubernetes bundle by a child process, with its progress."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.drivers.process import stream
from rackwright.errors import RackwrightError

Say = Callable[[str], Awaitable[None]]
CONTENTS: Final = "bundle.json"
"""List of the bundle's contents; a bundle that has this file is complete."""


async def ensure_bundle(version: str, extras: Sequence[str], info: Say, status: Say) -> str:
    """Return the folder of a complete bundle of a release with these parts. Build it if necessary."""
    words = (f"--release={version}", *(f"--with={extra}" for extra in extras))
    folder = await _build(words, "Kubernetes bundle", info, status)
    built = _contents(folder)["kubernetes"]
    if built != version:
        raise RackwrightError(
            f"scheduler.version: the bundle in {folder} is of Kubernetes {built}, the stack requires {version}",
            hint=f"remove {folder} and run `tools/kubernetes/build --release={version}`",
        )
    return folder


async def ensure_addon(name: str, version: str, release: str, info: Say, status: Say) -> str:
    """Return the folder of an addon's complete part of the bundle of a release. Build it if necessary."""
    folder = await _build((f"--release={release}", "--addon", name), f"part of the Kubernetes bundle with {name}", info, status)
    built = _contents(folder)["version"]
    if built != version:
        raise RackwrightError(
            f"scheduler.addons: the bundle has {name} {built}, the catalogue has {version}",
            hint=f"tools/kubernetes/addons/{name}/go.mod and catalog/addons.yml must name the same release",
        )
    return folder


def _contents(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, CONTENTS).read_text(encoding="utf-8"))
    return found


async def _build(words: tuple[str, ...], what: str, info: Say, status: Say) -> str:
    """Run the builder and report its progress. A part has its own stages, after those of the bundle that it needs."""
    events: list[dict[str, Any]] = []
    seen: set[str] = set()

    async def on_line(line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        events.append(event)
        if event.get("stage") is None:
            return
        message = f"bundle {event['stage']}/{event['of']}: {event['what']}"
        if message not in seen:
            seen.add(message)
            await info(message)
        await status(message + (f", {event['detail']}" if event.get("detail") else ""))

    ended = await stream([str(layout.product_root() / layout.KUBERNETES_BUNDLE / "build"), "--json", *words], on_line)
    folder = next((event["bundle"] for event in reversed(events) if "bundle" in event), None)
    if not ended.ok or folder is None:
        by_hand = " ".join(("tools/kubernetes/build", *words))
        raise RackwrightError(
            f"the {what} was not built:\n{ended.stderr.strip() or 'the builder printed nothing'}",
            hint=f"run `{by_hand}` to build it by hand; finished parts are cached",
        )
    return str(folder)
