"""The resources layer: the engine's events of a refresh that is only previewed, read for what is not as recorded, property by property."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from rackwright.drift import doors, instances
from rackwright.drift.difference import CLUSTER, Difference, Layer, Look, Weight
from rackwright.drift.weights import weights

_SECRET: Final = "4dabf18193072939515e22adb298388d"
"""The key by which the engine marks a value as secret or as an asset (sdk/go/common/resource, SigKey)."""
_OTHERS: Final = frozenset({"rackwright:ansible:Converge", "rackwright:test:Verification", "pulumi:pulumi:Stack"})
"""What has a layer of its own, or none."""
_NODES: Final = frozenset({"node", "host", "instance"})
"""Kinds of resources that are nodes, and are called by their names."""
_GONE: Final = frozenset({"delete", "discard"})
_HEAL: Final = "run `rackwright up {stack} --refresh`, which restores it"
_REMOVED_BY: Final = {"container": "rm --force", "volume": "volume rm", "network": "network rm"}
_LONGEST: Final = 120
"""Characters of a value worth showing."""


def look(stack: str, seconds: float, events: Iterable[Mapping[str, Any]], may_sleep: Collection[str] = ()) -> Look:
    """Of the events that the engine wrote: what is gone, has other properties, stands open or was stopped; why it failed, where it did.

    `may_sleep`: nodes that the scheduler stops to save power.
    """
    events = list(events)
    found: list[Difference] = []
    unknown: list[tuple[str, str]] = []
    ended = False
    for event in events:
        ended = ended or "summaryEvent" in event
        said = event.get("diagnosticEvent")
        if said and said.get("severity") == "error":
            unknown.append((CLUSTER, said["message"].strip()))
        happened = event.get("resOutputsEvent")
        if happened:
            found += _differences(stack, happened["metadata"])
    if not ended:
        unknown.append((CLUSTER, "the engine did not finish"))
    return Look(
        Layer.RESOURCES,
        seconds,
        (*found, *doors.differences(events), *instances.differences(events, may_sleep)),
        tuple(dict.fromkeys(unknown)),
    )


def events(log: str) -> list[dict[str, Any]]:
    """The engine's events, one per line; a last line that was cut off is left out, and with it the end."""
    found = []
    for line in log.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def recorded(events: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """What the engine has on record, by the names that things have where they are."""
    told = (event["resOutputsEvent"]["metadata"].get("old") or {} for event in events if "resOutputsEvent" in event)
    return frozenset(old["id"] for old in told if old.get("id"))


def strangers(there: Iterable[tuple[str, str]], known: frozenset[str]) -> tuple[Difference, ...]:
    """What carries the stack's label and nobody declared; (kind, name) of everything that carries it."""
    return tuple(
        Difference(
            layer=Layer.RESOURCES,
            node=CLUSTER,
            subject=f"{kind} {name}.stranger",
            declared="no resource of this name",
            live="has the stack's label",
            weight=weights().resources["stranger"],
            remedy=f"find out who created it; run `podman {_REMOVED_BY[kind]} {name}` to remove it, or `rackwright down` removes it",
        )
        for kind, name in there
        if name not in known and kind in _REMOVED_BY
    )


def _differences(stack: str, resource: Mapping[str, Any]) -> Iterator[Difference]:
    """Of one resource."""
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


def _one(stack: str, node: str, what: str, name: str, declared: str, live: str) -> Difference:
    weight = weights().resources.get(name, Weight.BREAKING)
    return Difference(Layer.RESOURCES, node, f"{what}.{name}", declared, live, weight, _HEAL.format(stack=stack))


def _shown(value: Any) -> str:
    """A value as a line; of a secret only that it is one."""
    if value is None:
        return "none"
    if isinstance(value, Mapping) and _SECRET in value:
        return "(secret)"
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
