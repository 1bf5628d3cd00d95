"""A stack file as data: YAML with the scalar rules of Pulumi; syntax errors become findings."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from rackwright.errors import InputError
from rackwright.model.finding import Finding, Severity
from rackwright.stackfile.field_hints import TOO_DEEP
from rackwright.yaml_loader import LOADER

_SIZE_LIMIT: Final = 1_000_000
"""Maximum size of a stack file in bytes, far above any real one."""
_VALUE_LIMIT: Final = 100_000
"""Maximum number of values of a stack file with its aliases expanded: a few lines of nested aliases can expand to billions."""


class _Loader(LOADER):  # type: ignore[misc]
    """Loader that reads scalars like Pulumi's YAML 1.2 reader and records duplicate keys.

    PyYAML's YAML 1.1 would read `on` as true, `22:30` as 1350 and a date as an object; Pulumi reads strings.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[yaml.MappingNode] = []


def _mapping(loader: Any, node: yaml.MappingNode) -> Any:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen and key.value != "<<":
                loader.repeated.append(key)
            seen.add(key.value)
    return loader.construct_mapping_deep(node)


def _construct_deep(loader: Any, node: yaml.MappingNode) -> dict[Hashable, Any]:
    loader.flatten_mapping(node)
    result: dict[Hashable, Any] = loader.construct_mapping(node, deep=True)
    return result


def _scalars() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    tags = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:float", "tag:yaml.org,2002:merge"}
    table = {first: [row for row in rows if row[0] in tags] for first, rows in LOADER.yaml_implicit_resolvers.items()}
    own = (
        ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o?[0-7]+", "-+0123456789"),
    )
    for tag, pattern, firsts in own:
        for first in firsts:
            table[first] = [(tag, re.compile(f"^(?:{pattern})$")), *table.get(first, [])]
    return table


_Loader.yaml_implicit_resolvers = _scalars()
_Loader.construct_mapping_deep = _construct_deep
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read(file: Path) -> tuple[Any, list[Finding]]:
    """Return the file's data, or None, and the findings about its syntax; raise InputError if the file is missing or unreadable."""
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise InputError("file does not exist", path=str(file)) from None
    except OSError as refused:
        raise InputError(f"cannot be read: {refused.strerror}", path=str(file)) from None
    if len(raw) > _SIZE_LIMIT:
        return None, [
            _finding(
                "yaml-size", file.name, f"file is too large (expected at most {_SIZE_LIMIT} bytes, found {len(raw)})", "reduce the file"
            )
        ]
    try:
        return parse(raw.decode(), file.name)
    except UnicodeDecodeError as broken:
        return None, [_finding("yaml-syntax", file.name, f"byte {broken.start} is not UTF-8", "save the file as UTF-8 text")]


def parse(text: str, name: str) -> tuple[Any, list[Finding]]:
    """Return data and findings of a YAML text; paths of syntax findings start with `name`."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, []
            if _weight(node, {}) > _VALUE_LIMIT:
                return None, [
                    _finding(
                        "yaml-size",
                        name,
                        f"file has too many values (expected at most {_VALUE_LIMIT} with aliases expanded)",
                        "reduce nested aliases",
                    )
                ]
            data = loader.construct_document(node)
            repeated = [_repeated(node, name) for node in loader.repeated]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as broken:
        return None, [_syntax(broken, text, name)]
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        if isinstance(broken, RecursionError):
            return None, [_finding("yaml-syntax", name, TOO_DEEP, "check the indentation and the brackets")]
        hint = "remove control characters, and save the file as UTF-8 text"
        return None, [_finding("yaml-syntax", name, f"is not valid YAML: {str(broken).splitlines()[0]}", hint)]
    return data, repeated


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values of a node with aliases expanded; above the limit for a node that contains itself."""
    if id(node) not in known:
        known[id(node)] = _VALUE_LIMIT + 1  # until it is counted: a node that contains itself is infinite
        children = [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else node.value
        inside = children if isinstance(node, yaml.CollectionNode) else ()
        known[id(node)] = min(1 + sum(_weight(child, known) for child in inside), _VALUE_LIMIT + 1)
    return known[id(node)]


def _repeated(key: Any, name: str) -> Finding:
    where = f"{name}:{key.start_mark.line + 1}:{key.start_mark.column + 1}"
    return _finding(
        "yaml-repeated-key", where, f"duplicate key `{key.value}` in a mapping", "remove or rename one of them: only one would take effect"
    )


def _syntax(broken: yaml.MarkedYAMLError, text: str, name: str) -> Finding:
    mark = broken.problem_mark or broken.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    cause = " ".join(part for part in (broken.context, broken.problem) if part)
    hint = (
        "replace the tab in this line: YAML is indented with spaces"
        if _has_tab(text, mark)
        else "check the indentation, quotes and brackets up to here"
    )
    return _finding("yaml-syntax", where, cause or "is not valid YAML", hint)


def _has_tab(text: str, mark: Any) -> bool:
    lines = text.splitlines()
    return mark is not None and mark.line < len(lines) and "\t" in lines[mark.line]


def _finding(rule: str, path: str, cause: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, rule, path, cause, hint)
