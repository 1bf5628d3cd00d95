"""The resources layer: differences by property, from the engine's events of a previewed refresh."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from rackwright.drift import security_group_rules, stopped_instances
from rackwright.drift.categories import categories
from rackwright.drift.difference import CLUSTER, Category, DriftItem, Layer, LayerScan

_SECRET: Final = "4dabf18193072939515e22adb298388d"
"""The key by which the engine marks a value as secret or as an asset (sdk/go/common/resource, SigKey)."""
_OTHERS: Final = frozenset({"rackwright:ansible:Converge", "rackwright:test:Verification", "pulumi:pulumi:Stack"})
"""Resource types of other layers, or of none."""
_NODES: Final = frozenset({"node", "host", "instance"})
"""Kinds of resources that are nodes and are shown by name."""
_GONE: Final = frozenset({"delete", "discard"})
_HEAL: Final = "run `rackwright up {stack} --refresh`, which restores it"
_REMOVED_BY: Final = {"container": "rm --force", "volume": "volume rm", "network": "network rm"}
_LONGEST: Final = 120
"""Maximum number of characters of a shown value."""


def scan(stack: str, seconds: float, events: Iterable[Mapping[str, Any]], may_sleep: Collection[str] = ()) -> LayerScan:
    """Return missing, changed, open and stopped resources from the engine's events, and the engine's errors as unknown results.

    `may_sleep`: nodes that the scheduler stops to save power.
    """
    events = list(events)
    found: list[DriftItem] = []
    unknown: list[tuple[str, str]] = []
    ended = False
    for event in events:
        ended = ended or "summaryEvent" in event
        diagnostic = event.get("diagnosticEvent")
        if diagnostic and diagnostic.get("severity") == "error":
            unknown.append((CLUSTER, diagnostic["message"].strip()))
        happened = event.get("resOutputsEvent")
        if happened:
            found += _differences(stack, happened["metadata"])
    if not ended:
        unknown.append((CLUSTER, "the engine did not finish"))
    return LayerScan(
        Layer.RESOURCES,
        seconds,
        (*found, *security_group_rules.differences(events), *stopped_instances.differences(events, may_sleep)),
        tuple(dict.fromkeys(unknown)),
    )


def events(log: str) -> list[dict[str, Any]]:
    """Return the engine's events, one per line, without a truncated last line."""
    found = []
    for line in log.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def recorded(events: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the resources in the engine's state."""
    resources = (event["resOutputsEvent"]["metadata"].get("old") or {} for event in events if "resOutputsEvent" in event)
    return frozenset(old["id"] for old in resources if old.get("id"))


def unmanaged_resources(there: Iterable[tuple[str, str]], known: frozenset[str]) -> tuple[DriftItem, ...]:
    """Return undeclared resources with the stack's label. `there`: (kind, name) of every resource with the label."""
    return tuple(
        DriftItem(
            layer=Layer.RESOURCES,
            node=CLUSTER,
            subject=f"{kind} {name}.unmanaged",
            declared="no resource of this name",
            live="has the stack's label",
            category=categories().resources["unmanaged"],
            remedy=f"find out who created it; run `podman {_REMOVED_BY[kind]} {name}` to remove it, or `rackwright down` removes it",
        )
        for kind, name in there
        if name not in known and kind in _REMOVED_BY
    )


def _differences(stack: str, resource: Mapping[str, Any]) -> Iterator[DriftItem]:
    """Return the differences of one resource."""
    if resource["type"] in _OTHERS:
        return
    old = (resource.get("old") or {}).get("inputs") or {}
    kind = resource["type"].rpartition(":")[2].lower()
    name = resource["urn"].rpartition("::")[2]
    node = old.get("hostname") or (name if kind in _NODES else CLUSTER)
    what = kind if node else f"{kind} {name}"
    if resource["op"] in _GONE:
        yield _one(stack, node, what, "exists", "present", "missing")
    elif resource["op"] == "update":
        new = (resource.get("new") or {}).get("inputs") or {}
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name) and not name.startswith("__"):
                yield _one(stack, node, what, name, _shown(old.get(name)), _shown(new.get(name)))


def _one(stack: str, node: str, what: str, name: str, declared: str, live: str) -> DriftItem:
    category = categories().resources.get(name, Category.BREAKING)
    return DriftItem(Layer.RESOURCES, node, f"{what}.{name}", declared, live, category, _HEAL.format(stack=stack))


def _shown(value: Any) -> str:
    """Return a value as one line; "(secret)" for a secret."""
    if value is None:
        return "none"
    if isinstance(value, Mapping) and _SECRET in value:
        return "(secret)"
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
