"""Baseline of each node in a known good state, saved between scans: `rackwright.host-baseline/1`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rackwright.drift import store
from rackwright.drift.host_baseline.compare import INSTANCE_KEY, NOTHING, Kinds, is_unread, subject
from rackwright.remote.programs.unread_lines import UNREAD

SCHEMA: Final = "rackwright.host-baseline/1"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Baseline by node, and the `up` to which it belongs."""

    applied: str
    nodes: Mapping[str, Kinds] = field(default_factory=dict)

    def of(self, node: str, now: Kinds) -> Kinds | None:
        """Return the baseline of a node; None without one, or if the node was recreated since. An unread machine id is no other one."""
        was = self.nodes.get(node)
        live = now.get("node", {}).get(INSTANCE_KEY)
        return was if was is not None and live in (None, was.get("node", {}).get(INSTANCE_KEY)) else None

    def renamed(self, applied: str, node: str, now: Kinds, still: Collection[tuple[str, str]]) -> tuple[str, str] | None:
        """Return the node's machine id in the baseline and now, if it changed although no `up` recreated the node; else None.

        `still`: as for `renewed`. A change that was open before an `up` stays open.
        """
        was, live = self.nodes.get(node, {}).get("node", {}).get(INSTANCE_KEY), now.get("node", {}).get(INSTANCE_KEY)
        known = applied == self.applied or (node, subject("node", "machine-id")) in still
        return (was, live) if was and live is not None and was != live and known else None

    def renewed(self, applied: str, now: Mapping[str, Kinds], well: Collection[str], still: Collection[tuple[str, str]]) -> Baseline:
        """Return the baseline after a scan: healthy nodes without one, and nodes that an `up` changed, get their current state.

        `still`: (node, subject) of differences that were open before that `up`; they stay open, so that an unrelated `up` does not
        accept them.
        """
        nodes = dict(self.nodes)
        for name, kinds in now.items():
            was = self.of(name, kinds)
            if was is None and name in well and self.renamed(applied, name, kinds, still) is None:
                nodes[name] = kinds
            elif was is not None and applied != self.applied:
                nodes[name] = _merged(was, kinds, {subject for node, subject in still if node == name})
        return Baseline(applied, nodes)


def _merged(was: Kinds, now: Kinds, still: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the current state, without differences that were open before. What was not read now stays as it was."""
    found: dict[str, dict[str, str]] = {}
    for kind in {*was, *now}:
        old, new = was.get(kind, {}), now.get(kind, was.get(kind, {}))
        names = {*old, *new} - {UNREAD}
        values = {name: (old if subject(kind, name) in still or is_unread(new, name) else new).get(name, NOTHING) for name in names}
        found[kind] = {name: value for name, value in values.items() if value != NOTHING}
    return found


def read(file: Path) -> Baseline:
    """Return the saved baseline; an empty one if the file is missing or of another version."""
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Baseline("")
    return Baseline(data["applied"], data["nodes"]) if data.get("schema") == SCHEMA else Baseline("")


def write(baseline: Baseline, file: Path) -> None:
    """Replace the file atomically."""
    store.write(json.dumps({"schema": SCHEMA, "applied": baseline.applied, "nodes": baseline.nodes}), file)
