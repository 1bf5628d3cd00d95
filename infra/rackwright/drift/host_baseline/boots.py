"""Reboots since the last scan. Each is a difference of one scan: the next one compares with the new boot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rackwright.drift.categories import categories
from rackwright.drift.difference import DriftItem, Layer
from rackwright.drift.host_baseline import baseline
from rackwright.drift.host_baseline.baseline import Baseline
from rackwright.drift.host_baseline.compare import BOOT_KEYS, Kinds, subject

_NODE = "node"


def boot_difference(stack: str, node: str, was: Kinds, now: Kinds) -> DriftItem | None:
    """Return the difference of a node that booted again; None without a reboot, or if one of the two boots was not read."""
    before, after = was.get(_NODE, {}), now.get(_NODE, {})
    if not before.get("boot") or not after.get("boot") or before["boot"] == after["boot"]:
        return None
    remedy = (
        f"find the cause on {node}: `last -x`, `journalctl --boot -1 --lines 100`, the event log of its management controller; a reboot "
        f"that was intended needs nothing: the next `rackwright drift {stack}` does not report it"
    )
    category = categories().host_baseline[_NODE]
    declared, live = f"the boot of {_time(before)}", f"booted again, at {_time(after)}"
    return DriftItem(Layer.BEHAVIOUR, node, subject(_NODE, "boot"), declared, live, category, remedy)


def with_boots(saved: Baseline, now: Mapping[str, Kinds]) -> Baseline:
    """Return the baseline with the present boot of each node that is in it and was not recreated."""
    seen = {name: _with(was, kinds[_NODE]) for name, kinds in now.items() if (was := saved.of(name, kinds)) and _NODE in kinds}
    return replace(saved, nodes={**saved.nodes, **seen})


def expect_reboots(file: Path, nodes: Collection[str]) -> None:
    """Remove the boots of nodes that rackwright reboots from the saved baseline: the next scan reports no reboot of them."""
    saved = baseline.read(file)
    named = {name: without_boot(kinds) for name, kinds in saved.nodes.items() if name in nodes}
    if named:
        baseline.write(replace(saved, nodes={**saved.nodes, **named}), file)


def without_boot(kinds: Kinds) -> Kinds:
    """Return a node's state without its boot."""
    return _with(kinds, {}) if _NODE in kinds else kinds


def _with(kinds: Kinds, boot: Mapping[str, str]) -> Kinds:
    """Return a node's state with another boot."""
    kept = {name: value for name, value in kinds.get(_NODE, {}).items() if name not in BOOT_KEYS}
    return {**kinds, _NODE: kept | {name: boot[name] for name in BOOT_KEYS if name in boot}}


def _time(node: Mapping[str, str]) -> str:
    """Return the time of a boot.

    >>> _time({"booted": "1795946400"})
    '2026-11-29 10:00 UTC'
    """
    return f"{datetime.fromtimestamp(int(node['booted']), UTC):%Y-%m-%d %H:%M} UTC"
