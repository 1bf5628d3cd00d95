"""The configuration layer: the changes that the phases report in check mode on each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rackwright.drift.categories import categories
from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan

_HEAL = "run `rackwright drift {stack} --reconcile configuration`, which applies the phases"
_AS_DECLARED = "as the roles configure it"


def scan(stack: str, seconds: float, changed: Iterable[Mapping[str, str]], failed: Iterable[Mapping[str, str]]) -> LayerScan:
    """Return tasks that would change a node, and tasks without a result: {host, phase, role, task, detail, live, declared}."""
    found = tuple(_difference(stack, one) for one in changed)
    unknown = dict.fromkeys((one["host"], f"{one['phase']}: {one['task']}: {one['detail']}") for one in failed)
    return LayerScan(Layer.CONFIGURATION, seconds, found, tuple(unknown))


def _difference(stack: str, task: Mapping[str, str]) -> DriftItem:
    return DriftItem(
        layer=Layer.CONFIGURATION,
        node=task["host"],
        subject=f"{task['phase']}.{task['task']}",
        declared=task["declared"] or _AS_DECLARED,
        live=task["live"] or task["detail"] or "would be changed",
        category=categories().configuration.get(task["role"], Category.BREAKING),
        remedy=_HEAL.format(stack=stack),
        managed_paths=tuple(task["detail"].split(", ")),
    )
