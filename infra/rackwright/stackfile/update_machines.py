"""Edits of a stack file's machines that change no other character: comments, order and quotes stay. Pure: text in, text out.

The text is split at the positions of keys and values that PyYAML reports; the result is parsed again and must contain the edits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

import yaml

from rackwright.errors import InputError
from rackwright.model.finding import has_errors
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY
from rackwright.yaml_loader import LOADER

Rows = Mapping[str, Mapping[str, str | int]]
"""Machine -> field -> value."""
Edit = tuple[int, int, str]
"""Start, end (character offsets), and the new text."""

_PATH: Final = ("config", CONFIG_KEY, "target", "machines")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_STEP: Final = 2
"""Columns per level of indentation."""


def with_machines(text: str, rows: Rows) -> str:
    """Return the text with these fields of these machines changed and new machines appended; raise InputError if the layout prevents it."""
    mapping = yaml.compose(text, Loader=LOADER)
    target = _target(mapping)
    machines = _value(target, _PATH[-1])
    has_some = isinstance(machines, yaml.MappingNode) and machines.value
    edits = list(_edits(text, machines, rows) if has_some else _new_machines(text, target, rows))
    for start, end, words in sorted(edits, reverse=True):
        text = text[:start] + words + text[end:]
    _require_data(text, _wanted(mapping, rows))
    return text


def _target(root: Any) -> yaml.MappingNode:
    found: Any = root
    for key in _PATH[:-1]:
        found = _value(found, key)
    if isinstance(found, yaml.MappingNode):
        return found
    raise InputError("expected a mapping", path=".".join(_PATH[:-1]), hint="add the target with its `kind` first")


def _value(mapping: Any, key: str) -> Any:
    """Return the node of a key, or None."""
    if not isinstance(mapping, yaml.MappingNode):
        return None
    return next((value for name, value in mapping.value if name.value == key), None)


def _new_machines(text: str, target: yaml.MappingNode, rows: Rows) -> Iterator[Edit]:
    """Add machines to a target without any: as its last key, or in place of an empty one."""
    if target.flow_style:
        raise InputError("cannot add machines to a mapping in braces", path="target", hint="write each key of the target on its own line")
    indent = target.start_mark.column
    block = "".join(f"\n{' ' * (indent + _STEP)}{name}: {_flow(fields)}" for name, fields in rows.items())
    empty = next(((key, value) for key, value in target.value if key.value == _PATH[-1]), None)
    if empty is not None:
        key, value = empty
        end = max(value.end_mark.index, key.end_mark.index + 1)
        yield key.end_mark.index, end, f":{block}"
    else:
        end = _end_of_line(text, _last(target).end_mark.index)
        yield end, end, f"\n{' ' * indent}{_PATH[-1]}:{block}"


def _edits(text: str, machines: yaml.MappingNode, rows: Rows) -> Iterator[Edit]:
    there = {key.value: (key, value) for key, value in machines.value}
    for name, fields in rows.items():
        if name in there:
            yield from _row(text, name, *there[name], fields)
    new = {name: fields for name, fields in rows.items() if name not in there}
    if new and machines.flow_style:
        place = _before_brace(text, machines)
        yield place, place, "".join(f",\n{' ' * machines.value[0][0].start_mark.column}{name}: {_flow(row)}" for name, row in new.items())
    elif new:
        end = _end_of_line(text, _last(machines).end_mark.index)
        indent = " " * machines.start_mark.column
        yield end, end, "".join(f"\n{indent}{name}: {_flow(row)}" for name, row in new.items())


def _row(text: str, name: str, key: Any, value: Any, fields: Mapping[str, str | int]) -> Iterator[Edit]:
    """Return the edits of an existing machine."""
    if not isinstance(value, yaml.MappingNode) or not value.value or value.start_mark.index < key.end_mark.index:
        raise InputError("is an alias or not a mapping", path=f"target.machines.{name}", hint="write a mapping: name: {address: …}")
    fresh = dict(fields)
    for own, old in value.value:
        if own.value in fresh:
            wanted = fresh.pop(own.value)
            if not isinstance(old, yaml.ScalarNode) or old.start_mark.index < own.end_mark.index:
                raise InputError("is an alias", path=f"target.machines.{name}.{own.value}", hint="write the value instead of the alias")
            if old.value != str(wanted):
                yield old.start_mark.index, old.end_mark.index, _scalar(wanted)
    if fresh and value.flow_style:
        place = _before_brace(text, value)
        yield place, place, "".join(f", {field}: {_scalar(wanted)}" for field, wanted in fresh.items())
    elif fresh:
        end = _end_of_line(text, _last(value).end_mark.index)
        yield end, end, "".join(f"\n{' ' * value.start_mark.column}{field}: {_scalar(wanted)}" for field, wanted in fresh.items())


def _last(node: Any) -> Any:
    """Return the last node of a block, a scalar or a flow collection; the block ends where this node ends."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        pair = node.value[-1]
        deeper = pair[1] if isinstance(pair, tuple) else pair
        if isinstance(pair, tuple) and deeper.start_mark.index < pair[0].start_mark.index:
            return pair[0]  # An alias: its node is at the anchor.
        node = deeper
    return node


def _end_of_line(text: str, index: int) -> int:
    """Return the end of the line, after its comment."""
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _before_brace(text: str, mapping: yaml.MappingNode) -> int:
    """Return the position after the last value in the braces, before a trailing comma: YAML accepts one comma, but not two."""
    last = mapping.value[-1][1]
    return int(last.end_mark.index) if last.start_mark.index > mapping.value[-1][0].start_mark.index else int(mapping.end_mark.index) - 1


def _flow(fields: Mapping[str, str | int]) -> str:
    return "{" + ", ".join(f"{field}: {_scalar(value)}" for field, value in fields.items()) + "}"


def _scalar(value: str | int) -> str:
    """Return a value as YAML: plain if it is parsed as the same text, else quoted."""
    if isinstance(value, int):
        return str(value)
    plain = _PLAIN.fullmatch(value) is not None and yaml_reader.parse(f"x: {value}", "")[0] == {"x": value}
    return value if plain else json.dumps(value)


def _wanted(root: Any, rows: Rows) -> Any:
    """Return the data that the edited text must contain."""
    data = deepcopy(yaml_reader.parse(yaml.serialize(root), "")[0])
    target = data["config"][CONFIG_KEY]["target"]
    machines = target.get("machines") or {}
    target["machines"] = machines | {name: {**(machines.get(name) or {}), **fields} for name, fields in rows.items()}
    return data


def _require_data(text: str, wanted: Any) -> None:
    data, findings = yaml_reader.parse(text, "the changed file")
    if has_errors(findings) or data != wanted:
        raise InputError(
            "cannot be edited automatically",
            path="target.machines",
            hint="write `machines:` with one line per machine and run the command again",
        )
