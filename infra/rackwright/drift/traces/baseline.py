"""What nodes had when all was well there, kept between looks: `rackwright.traces/1`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rackwright.drift import store
from rackwright.drift.traces.compare import LIFE, NOTHING, Kinds, subject

SCHEMA: Final = "rackwright.traces/1"


@dataclass(frozen=True, slots=True)
class Baseline:
    """By node; and which `up` it belongs to."""

    applied: str
    nodes: Mapping[str, Kinds] = field(default_factory=dict)

    def of(self, node: str, now: Kinds) -> Kinds | None:
        """What the node had; nothing where nobody looked while it was well, or it was made anew since."""
        was = self.nodes.get(node)
        return was if was is not None and was["node"].get(LIFE) == now.get("node", {}).get(LIFE) else None

    def renewed(self, applied: str, now: Mapping[str, Kinds], well: Collection[str], still: Collection[tuple[str, str]]) -> Baseline:
        """After a look: nodes that are well get what they have now where they had nothing, or where an `up` changed them since.

        `still`: (node, subject) of what differed before that `up`: it goes on being compared with what was there then, so that
        applying something else does not make it good.
        """
        kept = dict(self.nodes)
        for name, kinds in now.items():
            was = self.of(name, kinds)
            if was is None and name in well:
                kept[name] = kinds
            elif was is not None and applied != self.applied:
                kept[name] = _merged(was, kinds, {subject for node, subject in still if node == name})
        return Baseline(applied, kept)


def _merged(was: Kinds, now: Kinds, still: Collection[str]) -> dict[str, dict[str, str]]:
    """What is there now, but for what differed already."""
    found: dict[str, dict[str, str]] = {}
    for kind in {*was, *now}:
        old, new = was.get(kind, {}), now.get(kind, was.get(kind, {}))
        names = {*old, *new}
        values = {name: (old if subject(kind, name) in still else new).get(name, NOTHING) for name in names}
        found[kind] = {name: value for name, value in values.items() if value != NOTHING}
    return found


def read(file: Path) -> Baseline:
    """What was kept; nothing where it is not there, or another version wrote it."""
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Baseline("")
    return Baseline(data["applied"], data["nodes"]) if data.get("schema") == SCHEMA else Baseline("")


def write(kept: Baseline, file: Path) -> None:
    """Replaced whole."""
    store.write(json.dumps({"schema": SCHEMA, "applied": kept.applied, "nodes": kept.nodes}), file)
