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
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.drift import configuration
from rackwright.operations.drift.host_baseline import BaselineStates, collect, empty
from rackwright.operations.stack_lock import locked
from rackwright.time_limits import slowness

Progress = Callable[[Layer, str], Awaitable[None]]
_LAB: Final = "rackwright:lab:StackMarker"
"""Type of the resource that marks a stack whose containers run on this machine."""
_ENGINE: Final = 300.0
"""Timeout in seconds of a Pulumi refresh that reads resources only, on a machine with slowness 1."""
_SLOW: Final = 5
"""Slowness from which layers are scanned one after another. An emulated machine with two CPUs has 5 to 8; three layers in parallel took
330 s there, and nodes did not answer within 41 s (`pytest tests/newcomer -k debian-13-rootless`)."""
_VIRTUAL: Final = "vm"
"""Target whose layers are scanned one after another, too: its machines share this machine's processors, and are slow if emulated."""


async def scan(running: RunningStack, progress: Progress, *, with_baseline: bool) -> tuple[DriftReport, BaselineStates]:
    """Scan all layers and collect each node's current state; a layer that cannot be scanned has the reason in `unknown`.

    Raises UndeterminedError if another run holds the stack's lock.
    """
    scanners: dict[Layer, Callable[[RunningStack, Say], Awaitable[LayerScan]]] = {
        Layer.RESOURCES: _scan_resources,
        Layer.CONFIGURATION: configuration.scan,
        Layer.BEHAVIOUR: _scan_behaviour,
    }
    async with locked(running.name):
        started, began = datetime.now(UTC), time.monotonic()
        scans = [_scan_or_reason(layer, scan_layer(running, partial(progress, layer))) for layer, scan_layer in scanners.items()]
        attempt = partial(collect, running) if with_baseline else empty
        found, states = await _run_scans(scans, attempt(), one_by_one=_disturb_each_other(running.inventory.target))
        if states.late:
            states = await attempt(states)
        report = DriftReport(running.name, running.inventory.plan, started, time.monotonic() - began, tuple(found))
        return report.with_incomplete_named(), states


def _disturb_each_other(target: str) -> bool:
    """Return whether parallel scans of a target's nodes would slow each other down too much."""
    return target == _VIRTUAL or slowness() >= _SLOW


async def _run_scans(
    scans: Sequence[Coroutine[Any, Any, LayerScan]], baseline: Coroutine[Any, Any, BaselineStates], *, one_by_one: bool
) -> tuple[list[LayerScan], BaselineStates]:
    """Run the scans and the baseline in parallel; one after another where each slows the rest down."""
    if one_by_one:
        return [await scan for scan in scans], await baseline
    found, states = await asyncio.gather(asyncio.gather(*scans), baseline)
    return found, states


Say = Callable[[str], Awaitable[None]]


async def _scan_or_reason(layer: Layer, scanning: Awaitable[LayerScan]) -> LayerScan:
    """Scan a layer; if that fails, return a scan that holds the reason as unknown."""
    began = time.monotonic()
    try:
        return await scanning
    except RackwrightError as error:
        return LayerScan(layer, time.monotonic() - began, unknown=((CLUSTER, str(error)),))


async def _scan_resources(running: RunningStack, say: Say) -> LayerScan:
    """Preview a Pulumi refresh that reads resources only. If it fails, the layer is unknown, even without differences."""
    stack, began = running.name, time.monotonic()
    power_saving = PowerSavingNodes.of(running.inventory.cluster["scheduler"])
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


async def _scan_behaviour(running: RunningStack, say: Say) -> LayerScan:
    """Run the passive checks and return their failures as differences."""
    stack = running.name
    async with wake_nodes(stack, PowerSavingNodes.of(running.inventory.cluster["scheduler"]), say):
        outcome = await run_checks(
            inventory=paths.inventory(stack),
            ssh_config=paths.ssh_config(stack),
            results=paths.refresh_results(stack),
            level="checks",
            on_progress=say,
        )
    if not outcome.report.exists():
        return LayerScan(Layer.BEHAVIOUR, 0.0, unknown=((CLUSTER, outcome.stderr.strip() or "the checks wrote no report"),))
    return behaviour.scan(json.loads(outcome.report.read_text(encoding="utf-8")))
