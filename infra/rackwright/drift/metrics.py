"""Prometheus metrics of a drift scan: a file for node_exporter's textfile collector."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from rackwright.drift import store
from rackwright.drift.difference import Category, Layer
from rackwright.drift.document import DriftReport, State

_READABLE: Final = 0o644
"""node_exporter runs as its own user; the values are counts and times, not secrets."""


def as_text(found: DriftReport) -> str:
    """Return the metrics of every layer and category, zero counts included, so that alerts always have a series.

    The label of a category is `class`.
    """
    registry = CollectorRegistry()
    every = {scan.layer: scan for scan in found.layers}
    differences = _gauge(registry, "differences", "Number of differences between declared and live state", "layer", "class")
    unknown = _gauge(registry, "undetermined_items", "Number of unknown results; a layer that was not scanned counts as one", "layer")
    seconds = _gauge(registry, "layer_scan_duration_seconds", "Duration of the scan of a layer", "layer")
    for layer in Layer:
        scan = every.get(layer)
        for category in Category:
            counted = sum(one.category is category for one in scan.differences) if scan else 0
            differences.labels(found.stack, layer.value, category.value).set(counted)
        unknown.labels(found.stack, layer.value).set(len(scan.unknown) if scan else 1)
        seconds.labels(found.stack, layer.value).set(scan.seconds if scan else 0.0)
    state = _gauge(registry, "state", "1 for the state after the last scan, 0 for the other states", "state")
    for one in State:
        state.labels(found.stack, one.value).set(found.state is one)
    _gauge(registry, "scan_duration_seconds", "Duration of the last scan").labels(found.stack).set(found.seconds)
    ended = found.started.timestamp() + found.seconds
    _gauge(
        registry, "last_completion_timestamp_seconds", "Time at which the last scan finished; subtract it from time() for its age"
    ).labels(found.stack).set(ended)
    return generate_latest(registry).decode()


def write(found: DriftReport, file: Path) -> None:
    """Replace the file atomically: the collector may read at any time."""
    store.write(as_text(found), file, _READABLE)


def _gauge(registry: CollectorRegistry, name: str, what: str, *labels: str) -> Gauge:
    return Gauge(f"rackwright_drift_{name}", what, ("stack", *labels), registry=registry)
