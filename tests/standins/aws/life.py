"""A resource's life by its row in the table: create, read, update, delete."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from rackwright.provider.protocol.diff import DiffResult, diff_properties
from rackwright.provider.protocol.property_values import UNKNOWN
from standins.aws import schema
from standins.aws.account import Account, gone
from standins.aws.kind import ResourceType, Unsupported
from standins.aws.naming import own, was_given
from standins.aws.state import Properties, outputs, overlay

_PATIENCE: Final = 5.0
"""Seconds until a new resource must be listed."""


@dataclass(frozen=True)
class Found:
    """A live resource: inputs as they are in reality, and outputs."""

    ident: str
    inputs: Properties
    outputs: Properties


def difference(kind: ResourceType, olds: Properties, news: Properties) -> DiffResult:
    """Return the changes of the new inputs, and whether they are possible in place."""
    force = kind.force | kind.replaced_if(olds, news)
    found = diff_properties(own(olds), own(news), replace_on=force)
    return DiffResult(found.changes, delete_before_replace=was_given(kind.autoname, news))


def foreseen(account: Account, kind: ResourceType, inputs: Properties) -> Properties:
    """Return outputs before creation: the inputs, and every output that only AWS can determine as unknown."""
    known = own(inputs)
    shape = schema.shape(kind.token).outputs
    unknown = {name: UNKNOWN for name in shape if name not in known}
    return {**unknown, **known, **_all_tags(account, kind, shape, inputs), **_region(account, shape)}


def foreseen_change(account: Account, kind: ResourceType, olds: Properties, news: Properties) -> Properties:
    """Return outputs before a change in place."""
    shape = schema.shape(kind.token).outputs
    return {**olds, **own(news), **_all_tags(account, kind, shape, news), **dict.fromkeys(kind.moves, UNKNOWN)}


def create(account: Account, kind: ResourceType, inputs: Properties) -> Found:
    """Create the resource and set every input that the create call does not accept."""
    props = own(inputs)
    tags = {**account.default_tags, **(props.get("tags") or {})}
    ident = kind.make(account, kind, kind.sent(props), tags)
    _settle(account, kind, ident, [name for name in props if name in kind.late], {}, props)
    if kind.tags and tags and not kind.tags.at_once:
        kind.tags.change(account, ident, {}, [], tags)
    deadline = time.monotonic() + _PATIENCE
    while (found := read(account, kind, ident, inputs)) is None:
        if time.monotonic() > deadline:
            raise Unsupported(f"{ident} was made and is not shown {_PATIENCE:.0f} s later")
        time.sleep(0.1)
    return found


def read(account: Account, kind: ResourceType, ident: str, inputs: Properties) -> Found | None:
    """Return the live resource, or None if it is deleted."""
    try:
        described = kind.look(account, ident, own(inputs))
    except ClientError as error:
        if gone(error):
            return None
        raise
    if described is None:
        return None
    shape = schema.shape(kind.token).outputs
    told = {**outputs(shape, described, kind.renames), **kind.outs(account, ident, described, own(inputs))}
    seen = {key: value for key, value in told.items() if key in shape and value is not None}
    tags = _seen_tags(account, kind, ident, described, shape)
    live = {**own(inputs), **{key: overlay(inputs.get(key), seen[key]) for key in seen if key in inputs}}
    if kind.tags:
        live = _with_tags(live, inputs, tags, account.default_tags)
    state = {**seen, **live, **tags, **_region(account, shape)}
    defaults = {"__defaults": inputs["__defaults"]} if "__defaults" in inputs else {}
    return Found(ident, {**live, **defaults}, state)


def update(account: Account, kind: ResourceType, ident: str, olds: Properties, news: Properties) -> Found:
    """Change the resource in place. Raise Unsupported for a change without a call."""
    old, new = own(olds), own(news)
    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    demand_changeable(kind, changed)
    if "tags" in changed and kind.tags:
        described = kind.look(account, ident, new) or {}
        before, after = old.get("tags") or {}, {**account.default_tags, **(new.get("tags") or {})}
        kind.tags.change(account, ident, described, [key for key in before if key not in after], after)
    _settle(account, kind, ident, [name for name in changed if name in kind.settle], old, new)
    found = read(account, kind, ident, news)
    if found is None:
        raise Unsupported(f"{ident} is gone")
    return found


def demand_changeable(kind: ResourceType, changed: list[str]) -> None:
    """Refuse a change that the stand-in does not support."""
    able = kind.settle.keys() | kind.local | ({"tags"} if kind.tags else set())
    unable = [name for name in changed if name not in able]
    if unable:
        raise Unsupported(f"the stand-in has no in-place update of {', '.join(unable)} for {kind.token}")


def delete(account: Account, kind: ResourceType, ident: str, inputs: Properties) -> None:
    """Delete the resource; one that does not exist counts as deleted."""
    try:
        kind.drop(account, ident, own(inputs))
    except ClientError as error:
        if not gone(error):
            raise


def _settle(account: Account, kind: ResourceType, ident: str, names: list[str], olds: Properties, news: Properties) -> None:
    """Call each setter once, though several properties may share it."""
    for way in dict.fromkeys(kind.settle[name] for name in kind.settle if name in names):
        way(account, ident, news, olds)


def _seen_tags(account: Account, kind: ResourceType, ident: str, described: dict[str, Any], shape: dict[str, Any]) -> Properties:
    if not kind.tags or "tagsAll" not in shape:
        return {}
    return {"tagsAll": kind.tags.seen(account, ident, described)}


def _with_tags(live: Properties, inputs: Properties, seen: Properties, defaults: dict[str, str]) -> Properties:
    """Return inputs with the live tags, even where none were declared: an added tag is a difference, too."""
    given = inputs.get("tags") or {}
    tags = {key: value for key, value in seen.get("tagsAll", {}).items() if key in given or defaults.get(key) != value}
    return {**live, "tags": tags} if tags or "tags" in inputs else live


def _all_tags(account: Account, kind: ResourceType, shape: dict[str, Any], inputs: Properties) -> Properties:
    if "tagsAll" not in shape:
        return {}
    given = inputs.get("tags")
    return {"tagsAll": given if given == UNKNOWN else {**account.default_tags, **(given or {})}}


def _region(account: Account, shape: dict[str, Any]) -> Properties:
    return {"region": account.region} if "region" in shape else {}
