"""The three layers of a drift scan: the Pulumi engine's refresh, the playbooks in check mode, the passive checks."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from rackwright.drift import behaviour, resources
from rackwright.drift.difference import CLUSTER, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.drivers import podman, pulumi
from rackwright.drivers.check_runner import run_checks
from rackwright.drivers.power import PowerSavingNodes, wake_nodes
from rackwright.drivers.process import run
from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.inventory.running_stack import load_inventory
from rackwright.inventory.time_limits import slowness
from rackwright.operations.drift import configuration
from rackwright.operations.drift.host_baseline import Traces, collect, empty
from rackwright.operations.stack_lock import StackLock

Progress = Callable[[Layer, str], Awaitable[None]]
_LAB: Final = "rackwright:lab:StackMarker"
"""Type of the resource that marks a stack whose containers run on this machine."""
_ENGINE: Final = 300.0
"""Timeout in seconds of a Pulumi refresh that reads resources only, on a machine with slowness 1."""
_SLOW: Final = 5
"""Slowness from which layers are scanned one after another. An emulated machine with two CPUs has 5 to 8; three layers in parallel took
330 s there, and nodes did not answer within 41 s (`pytest tests/newcomer -k debian-13-rootless`)."""


async def scan(stack: str, progress: Progress, *, with_traces: bool) -> tuple[DriftReport, Traces]:
    """Scan all layers and collect each node's current state; a layer that cannot be scanned has the reason in `unknown`.

    Raises UndeterminedError if another run holds the stack's lock.
    """
    declared = from_inventory(load_inventory(stack))
    lock = StackLock(stack)
    try:
        await lock.hold()
    except RackwrightError as error:
        raise UndeterminedError(error.cause, hint=error.hint) from None
    try:
        return await _scan_layers(stack, declared, progress, with_traces=with_traces)
    finally:
        lock.release()


async def _scan_layers(stack: str, declared: Inventory, progress: Progress, *, with_traces: bool) -> tuple[DriftReport, Traces]:
    started, began = datetime.now(UTC), time.monotonic()
    power_saving = PowerSavingNodes.of(declared.cluster["scheduler"])
    scanners: dict[Layer, Callable[[str, Say], Awaitable[LayerScan]]] = {
        Layer.RESOURCES: partial(_scan_resources, power_saving=power_saving),
        Layer.CONFIGURATION: configuration.scan,
        Layer.BEHAVIOUR: partial(_scan_behaviour, power_saving=power_saving),
    }
    scans = [_scan_or_reason(layer, scan_layer, stack, partial(progress, layer)) for layer, scan_layer in scanners.items()]
    baseline = collect(stack, declared) if with_traces else empty()
    found, traces = await _run_scans(scans, baseline)
    return DriftReport(stack, declared.plan, started, time.monotonic() - began, tuple(found)).with_held_named(), traces


async def _run_scans(
    scans: Sequence[Coroutine[Any, Any, LayerScan]], baseline: Coroutine[Any, Any, Traces]
) -> tuple[list[LayerScan], Traces]:
    """Run the scans and the baseline in parallel; on a slow machine one after another, because each slows the rest down."""
    if slowness() >= _SLOW:
        return [await scan for scan in scans], await baseline
    found, traces = await asyncio.gather(asyncio.gather(*scans), baseline)
    return found, traces


Say = Callable[[str], Awaitable[None]]


async def _scan_or_reason(layer: Layer, scan_layer: Callable[[str, Say], Awaitable[LayerScan]], stack: str, say: Say) -> LayerScan:
    """Scan a layer; if that fails, return a scan that holds the reason as unknown."""
    began = time.monotonic()
    try:
        return await scan_layer(stack, say)
    except RackwrightError as error:
        return LayerScan(layer, time.monotonic() - began, unknown=((CLUSTER, str(error)),))


async def _scan_resources(stack: str, say: Say, *, power_saving: PowerSavingNodes | None) -> LayerScan:
    """Preview a Pulumi refresh that reads resources only. If it fails, the layer is unknown, even without differences."""

    began = time.monotonic()
    await say("reading containers, networks, keys")
    with tempfile.TemporaryDirectory(prefix=".drift-", dir=paths.folder(stack)) as folder:
        log = Path(folder) / "events"
        where = ["--cwd", str(paths.project_root()), "--stack", stack]
        command = [str(pulumi.executable()), "refresh", *where, "--preview-only", "--event-log", str(log)]
        env = {**os.environ, pulumi.REFRESH_SCOPE_ENV: Layer.RESOURCES.value, "PULUMI_DEBUG_COMMANDS": "true"}
        ended = await run(command, timeout=_ENGINE * slowness(), env=env)
        events = resources.events(log.read_text(encoding="utf-8")) if log.exists() else []
    found = resources.scan(stack, time.monotonic() - began, events, power_saving.nodes if power_saving else ())
    if not ended.ok and (not events or not found.unknown):
        why = ended.stderr.strip() or ended.stdout.strip() or f"pulumi refresh ended with {ended.status}"
        found = replace(found, unknown=((CLUSTER, why),))
    return replace(found, seconds=time.monotonic() - began, differences=(*found.differences, *await _unmanaged_containers(stack, events)))


async def _unmanaged_containers(stack: str, events: Sequence[Mapping[str, Any]]) -> tuple[DriftItem, ...]:
    """Return unmanaged podman objects with the lab's label: neither in the Pulumi state nor created by the checks of this scan."""
    if not any(event.get("resOutputsEvent", {}).get("metadata", {}).get("type") == _LAB for event in events):
        return ()
    kinds = [(kind, name) for kind, _, name in (item.partition(" ") for item in await podman.stack_leftovers(stack, ephemeral=False))]
    return resources.unmanaged_resources(kinds, resources.recorded(events))


async def _scan_behaviour(stack: str, say: Say, *, power_saving: PowerSavingNodes | None) -> LayerScan:
    """Run the passive checks and return their failures as differences."""
    async with wake_nodes(stack, power_saving, say):
        outcome = await run_checks(
            inventory=paths.inventory(stack),
            ssh_config=paths.ssh_config(stack),
            results=paths.refresh_results(stack),
            level="checks",
            on_progress=say,
        )
    if not outcome.report.exists():
        return LayerScan(Layer.BEHAVIOUR, 0.0, unknown=((CLUSTER, outcome.said.strip() or "the checks wrote no report"),))
    return behaviour.scan(json.loads(outcome.report.read_text(encoding="utf-8")))
