"""A stack file as data: YAML with the scalar rules of Pulumi; syntax errors become findings."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from rackwright.errors import InputError
from rackwright.model.finding import Finding, Severity
from rackwright.stackfile.field_hints import TOO_DEEP
from rackwright.stackfile.yaml_hints import decode, odd_characters, position, syntax_hint
from rackwright.stackfile.yaml_scalars import TAGS, constructors, resolvers, surprise
from rackwright.yaml_loader import LOADER

_SIZE_LIMIT: Final = 1_000_000
"""Maximum size of a stack file in bytes, far above any real one."""
_VALUE_LIMIT: Final = 100_000
"""Maximum number of values of a stack file with its aliases expanded: a few lines of nested aliases can expand to billions."""
_DEPTH_LIMIT: Final = 100
"""Maximum number of nested mappings and lists, far above any real one: the model has about ten."""
_MERGE: Final = "<<"

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Written:
    """A plain scalar as it stands in the file."""

    text: str
    line: int
    """From 1."""


@dataclass(frozen=True)
class Document:
    """A stack file as data; None if it is empty or its syntax is invalid."""

    data: Any
    findings: list[Finding] = field(default_factory=list)
    numbers: Mapping[Place, Written] = field(default_factory=dict)
    """Unquoted numbers by place; the data holds their values, `1.30` as 1.3."""
    lines: Mapping[Place, int] = field(default_factory=dict)
    """Line of each value by place, that of its key if it has one."""


class _Loader(LOADER):  # type: ignore[misc]
    """Loader that reads scalars like Pulumi's YAML 1.2 reader."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Hashable, Any]:
    loader.flatten_mapping(node)
    result: dict[Hashable, Any] = loader.construct_mapping(node, deep=True)
    return result


_Loader.yaml_implicit_resolvers = resolvers()
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag, _read in constructors().items():
    _Loader.add_constructor(_tag, _read)


def read(file: Path) -> tuple[Any, list[Finding]]:
    """Return the file's data, or None, and the findings about its syntax; raise InputError if the file is missing or unreadable."""
    document = read_document(file)
    return document.data, document.findings


def read_document(file: Path) -> Document:
    """Read a file; raise InputError if it is missing or unreadable."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(_SIZE_LIMIT + 1)
    except FileNotFoundError:
        raise InputError("file does not exist", path=str(file)) from None
    except OSError as refused:
        raise InputError(f"cannot be read: {refused.strerror}", path=str(file)) from None
    if len(raw) > _SIZE_LIMIT:
        cause = f"file is too large (expected at most {_SIZE_LIMIT} bytes, found {file.stat().st_size})"
        return Document(None, [_finding("yaml-size", file.name, cause, "reduce the file")])
    text, cause, hint = decode(raw)
    if cause:
        return Document(None, [_finding("yaml-syntax", file.name, cause, hint)])
    return parse_document(text, file.name)


def parse(text: str, name: str) -> tuple[Any, list[Finding]]:
    """Return data and findings of a YAML text; paths of syntax findings start with `name`."""
    document = parse_document(text, name)
    return document.data, document.findings


def parse_document(text: str, name: str) -> Document:
    """Read a YAML text; paths of syntax findings start with `name`."""
    try:
        if _is_too_deep(text):
            return Document(None, [_too_deep(name)])
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return Document(None) if node is None else _document(loader, node, name)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as broken:
        return Document(None, [_syntax(broken, text, name)])
    except RecursionError:
        return Document(None, [_too_deep(name)])
    except (yaml.YAMLError, ValueError) as broken:
        hint = "remove control characters, and save the file as UTF-8 text"
        place = position(broken, text)
        where = f"{name}:{place[0]}:{place[1]}" if place else name
        return Document(None, [_finding("yaml-syntax", where, f"is not valid YAML: {str(broken).splitlines()[0]}", hint)])


def _is_too_deep(text: str) -> bool:
    """Return whether a text has too many nested collections. PyYAML composes them by recursion in C, which would end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH_LIMIT:
            return True
    return False


def _document(loader: Any, node: yaml.Node, name: str) -> Document:
    """Construct the data of a document whose syntax is valid, if each of its values is."""
    if _weight(node, {}) > _VALUE_LIMIT:
        cause = f"file has too many values (expected at most {_VALUE_LIMIT} with aliases expanded)"
        return Document(None, [_finding("yaml-size", name, cause, "reduce nested aliases")])
    numbers: dict[Place, Written] = {}
    lines: dict[Place, int] = {}
    findings: list[Finding] = []
    for place, one in _nodes(node):
        findings += _judged(loader, one, name)
        lines.setdefault(place, one.start_mark.line + 1)
        if isinstance(one, yaml.ScalarNode) and one.tag.rpartition(":")[2] in {"int", "float"}:
            numbers[place] = Written(one.value, one.start_mark.line + 1)
    unique = list(dict.fromkeys(findings))
    # Duplicate keys leave the rest readable; a value of another type leaves nothing to construct.
    unreadable = [one for one in unique if one.rule == "yaml-syntax"]
    return Document(None if unreadable else loader.construct_document(node), unique, numbers, lines)


def _nodes(node: yaml.Node, place: Place = ()) -> Iterator[tuple[Place, yaml.Node]]:
    """Yield every node with its place, a key at the place of its value. Raise RecursionError if aliases nest too deep."""
    if len(place) > _DEPTH_LIMIT:
        raise RecursionError
    yield place, node
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            merged = isinstance(key, yaml.ScalarNode) and key.value == _MERGE
            own = (*place, key.value) if isinstance(key, yaml.ScalarNode) and not merged else place
            yield from _nodes(key, own)
            yield from _nodes(value, own)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _nodes(value, (*place, index))


def _judged(loader: Any, node: yaml.Node, name: str) -> Iterator[Finding]:
    """Yield what is wrong with one node, without the nodes inside of it."""
    where = _where(node, name)
    if node.tag not in TAGS:
        hint = "remove the tag, or put the value in quotes if it is text"
        yield _finding("yaml-syntax", where, f"`{node.tag.rpartition(':')[2]}` is not a type of a stack file", hint)
    elif isinstance(node, yaml.MappingNode):
        yield from _judged_keys(node, name)
    elif isinstance(node, yaml.ScalarNode):
        yield from _judged_scalar(loader, node, where)


def _judged_scalar(loader: Any, node: yaml.ScalarNode, where: str) -> Iterator[Finding]:
    if node.tag.endswith(":merge"):
        return
    try:
        str(loader.construct_object(node))  # Python also refuses to print a number of more than 4300 digits: 0xffff….
    except (ValueError, LookupError, AttributeError, yaml.YAMLError):
        kind = node.tag.rpartition(":")[2]
        yield _finding("yaml-syntax", where, f"`{node.value[:60]}` cannot be read as {kind}", "put the value in quotes if it is text")
        return
    if not node.style and (odd := odd_characters(node.value)):
        yield _finding("yaml-character", where, *odd)
    if other := surprise(node):
        yield Finding(Severity.WARNING, "yaml-number", where, *other)


def _judged_keys(node: yaml.MappingNode, name: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for key, _ in node.value:
        kind = key.tag.rpartition(":")[2]
        if kind in {"null", "bool", "float"}:
            hint = f'write a name; in quotes, "{key.value}" is text'
            yield _finding("yaml-syntax", _where(key, name), f"`{key.value}` is read as {kind}, and a key is text", hint)
        if isinstance(key, yaml.ScalarNode) and key.value != _MERGE:
            if key.value in seen:
                hint = "remove or rename one of them: only one would take effect"
                yield _finding("yaml-repeated-key", _where(key, name), f"duplicate key `{key.value}` in a mapping", hint)
            seen.add(key.value)


def _children(node: yaml.CollectionNode) -> list[yaml.Node]:
    return [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else list(node.value)


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values of a node with aliases expanded; above the limit for a node that contains itself."""
    if id(node) not in known:
        known[id(node)] = _VALUE_LIMIT + 1  # until it is counted: a node that contains itself is infinite
        inside = _children(node) if isinstance(node, yaml.CollectionNode) else []
        known[id(node)] = min(1 + sum(_weight(child, known) for child in inside), _VALUE_LIMIT + 1)
    return known[id(node)]


def _where(node: yaml.Node, name: str) -> str:
    return f"{name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _too_deep(name: str) -> Finding:
    return _finding("yaml-syntax", name, TOO_DEEP, "check the indentation and the brackets")


def _syntax(broken: yaml.MarkedYAMLError, text: str, name: str) -> Finding:
    mark = broken.problem_mark or broken.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    cause = " ".join(part for part in (broken.context, broken.problem) if part)
    return _finding("yaml-syntax", where, cause or "is not valid YAML", syntax_hint(broken, text, mark.line if mark else 0))


def _finding(rule: str, path: str, cause: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, rule, path, cause, hint)
