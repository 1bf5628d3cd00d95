"""Writing one value into a stack file; comments, order and layout stay unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

from rackwright.errors import InputError
from rackwright.model.finding import has_errors
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY

_SECTION: Final = ("config", CONFIG_KEY)


def set_value(text: str, path: Sequence[str], key: str, value: str, *, name: str) -> str:
    """Return the text with `key: value` set in the mapping at a path of the cluster; raise InputError if the layout does not allow it.

    `value` is one plain word. The result is parsed again and must differ in this key only.
    """
    refusal = InputError(
        f"{'.'.join(path)} cannot be edited automatically",
        path=name,
        hint=f"add `{key}: {value}` by hand, then run the command again with --check",
    )
    node = _mapping(text, (*_SECTION, *path))
    edited = None if node is None else _edited(text, node, key, value)
    if edited is None or not _has_only_this_edit(text, edited, (*_SECTION, *path), key, value):
        raise refusal
    return edited


def _mapping(text: str, path: Sequence[str]) -> yaml.MappingNode | None:
    """Return the mapping at a path, or None if it is an alias, because an edit would change the anchor's mapping as well."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    for step in path:
        pair = _pair(node, step)
        if pair is None or pair[1].start_mark.index < pair[0].end_mark.index:
            return None
        node = pair[1]
    return node if isinstance(node, yaml.MappingNode) else None


def _pair(node: Any, key: str) -> tuple[Any, Any] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((pair for pair in pairs if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == key), None)


def _edited(text: str, node: yaml.MappingNode, key: str, value: str) -> str | None:
    old = _pair(node, key)
    if old is not None:
        start, end = old[1].start_mark.index, old[1].end_mark.index
        return f"{text[:start]}{' ' if start == end else ''}{value}{text[end:]}"
    start = node.start_mark.index
    if node.flow_style:
        rest = text[start + 1 :]
        comma = "" if not node.value else "," if rest[:1].isspace() else ", "
        return f"{text[: start + 1]}{key}: {value}{comma}{rest}" if text[start] == "{" else None
    first = node.value[0][0].start_mark
    margin = text[first.index - first.column : first.index]
    if margin.strip(" "):
        return None  # the first key follows a dash, a question mark or a tab
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{text[: first.index - first.column]}{margin}{key}: {value}{newline}{text[first.index - first.column :]}"


def _has_only_this_edit(text: str, edited: str, path: Sequence[str], key: str, value: str) -> bool:
    """Return whether the edited text differs from the original in this key only."""
    before, after = yaml_reader.parse(text, ""), yaml_reader.parse(edited, "")
    if has_errors(before[1]) or has_errors(after[1]):
        return False
    inner = before[0]
    for step in path:
        inner = inner[step]
    inner[key] = value
    return bool(before[0] == after[0])
