"""The three layers of a drift scan: the Pulumi engine's refresh, the playbooks in check mode, the passive checks."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from rackwright.drift import behaviour, resources
from rackwright.drift.difference import CLUSTER, Difference, Layer, Look
from rackwright.drift.document import Drift
from rackwright.drivers import podman
from rackwright.drivers.check_runner import run_checks
from rackwright.drivers.power import Sleepers, awake
from rackwright.drivers.process import run
from rackwright.drivers.pulumi import REFRESH_SCOPE_ENV
from rackwright.errors import CouldNotTell, RackwrightError
from rackwright.inventory import paths
from rackwright.inventory.reader import Declared, from_inventory
from rackwright.inventory.running_stack import load_inventory
from rackwright.operations.drift import configuration
from rackwright.operations.drift.host_baseline import Traces, asked, nothing
from rackwright.operations.stack_lock import StackLock

Progress = Callable[[Layer, str], Awaitable[None]]
_LAB: Final = "rackwright:lab:Label"
"""Type of the resource that marks a stack whose containers run on this machine."""
_ENGINE: Final = 300.0
"""Timeout in seconds of a Pulumi refresh that reads resources only."""


async def look(stack: str, progress: Progress, *, with_traces: bool) -> tuple[Drift, Traces]:
    """Scan all layers in parallel and collect each node's current state; a layer that cannot be scanned has the reason in `unknown`.

    Raises CouldNotTell if another run holds the stack's lock.
    """
    declared = from_inventory(load_inventory(stack))
    lock = StackLock(stack)
    try:
        await lock.hold()
    except RackwrightError as error:
        raise CouldNotTell(error.cause, hint=error.hint) from None
    try:
        return await _look(stack, declared, progress, with_traces=with_traces)
    finally:
        lock.let_go()


async def _look(stack: str, declared: Declared, progress: Progress, *, with_traces: bool) -> tuple[Drift, Traces]:
    started, began = datetime.now(UTC), time.monotonic()
    sleepers = Sleepers.of(declared.cluster["scheduler"])
    looks: dict[Layer, Callable[[str, Saying], Awaitable[Look]]] = {
        Layer.RESOURCES: partial(_resources, sleepers=sleepers),
        Layer.CONFIGURATION: configuration.look,
        Layer.BEHAVIOUR: partial(_behaviour, sleepers=sleepers),
    }
    layers = asyncio.gather(*(_told(layer, one, stack, partial(progress, layer)) for layer, one in looks.items()))
    found, traces = await asyncio.gather(layers, asked(stack, declared) if with_traces else nothing())
    return Drift(stack, declared.plan, started, time.monotonic() - began, tuple(found)), traces


Saying = Callable[[str], Awaitable[None]]


async def _told(layer: Layer, one: Callable[[str, Saying], Awaitable[Look]], stack: str, say: Saying) -> Look:
    began = time.monotonic()
    try:
        return await one(stack, say)
    except RackwrightError as error:
        return Look(layer, time.monotonic() - began, unknown=((CLUSTER, str(error)),))


async def _resources(stack: str, say: Saying, *, sleepers: Sleepers | None) -> Look:
    """Preview a Pulumi refresh that reads resources only. If it fails, the layer is unknown, even without differences."""
    from rackwright.drivers.pulumi import executable

    began = time.monotonic()
    await say("reading containers, networks, keys")
    with tempfile.TemporaryDirectory(prefix=".drift-", dir=paths.folder(stack)) as folder:
        log = Path(folder) / "events"
        where = ["--cwd", str(paths.project_root()), "--stack", stack]
        command = [str(executable()), "refresh", *where, "--preview-only", "--event-log", str(log)]
        ended = await run(
            command, timeout=_ENGINE, env={**os.environ, REFRESH_SCOPE_ENV: Layer.RESOURCES.value, "PULUMI_DEBUG_COMMANDS": "true"}
        )
        events = resources.events(log.read_text(encoding="utf-8")) if log.exists() else []
    found = resources.look(stack, time.monotonic() - began, events, sleepers.nodes if sleepers else ())
    if not ended.ok and (not events or not found.unknown):
        why = ended.stderr.strip() or ended.stdout.strip() or f"pulumi refresh ended with {ended.status}"
        found = replace(found, unknown=((CLUSTER, why),))
    return replace(found, seconds=time.monotonic() - began, differences=(*found.differences, *await _strangers(stack, events)))


async def _strangers(stack: str, events: Sequence[Mapping[str, Any]]) -> tuple[Difference, ...]:
    """Return unmanaged podman objects with the lab's label: neither in the Pulumi state nor created by the checks of this scan."""
    if not any(event.get("resOutputsEvent", {}).get("metadata", {}).get("type") == _LAB for event in events):
        return ()
    kinds = [(kind, name) for kind, _, name in (item.partition(" ") for item in await podman.stack_leftovers(stack, passing=False))]
    return resources.strangers(kinds, resources.recorded(events))


async def _behaviour(stack: str, say: Saying, *, sleepers: Sleepers | None) -> Look:
    """Run the passive checks and return their failures as differences."""
    async with awake(stack, sleepers, say):
        outcome = await run_checks(
            inventory=paths.inventory(stack),
            ssh_config=paths.ssh_config(stack),
            results=paths.refresh_results(stack),
            level="checks",
            on_progress=say,
        )
    if not outcome.report.exists():
        return Look(Layer.BEHAVIOUR, 0.0, unknown=((CLUSTER, outcome.said.strip() or "the checks wrote no report"),))
    return behaviour.look(json.loads(outcome.report.read_text(encoding="utf-8")))
