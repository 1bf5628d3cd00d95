"""Plain scalars of a stack file, read as Pulumi reads them: YAML 1.2, with the numbers of Go's yaml.v3 (gopkg.in/yaml.v3, resolve.go).

PyYAML's YAML 1.1 would read `on` as true, `22:30` as 1350, `1:30.5` as 90.5, and a date as an object; Pulumi reads text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

_INTEGER: Final = r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|0[0-7_]*|[1-9][0-9_]*)"
_NUMBER: Final = r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?"
_NAMED: Final = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_TAG: Final = "tag:yaml.org,2002:"
_RULES: Final = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", _INTEGER, "-+0123456789"),
    ("float", rf"{_NUMBER}|{_NAMED}", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
)
TAGS: Final = frozenset(f"{_TAG}{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null", "merge"))
"""Types that a stack file can hold. JSON, in which Pulumi passes the configuration on, has no others."""
_EXACT: Final = 1e21
"""Go's encoding/json writes numbers from here on with an exponent."""
_OCTAL: Final = re.compile(r"[-+]?0[0-7_]+")
_PADDED: Final = re.compile(r"0[0-9]*[89][0-9]*")


def resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the rules by first character, in PyYAML's form."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, pattern, firsts in _RULES:
        for first in firsts:
            table.setdefault(first, []).append((f"{_TAG}{kind}", re.compile(f"^(?:{pattern})$")))
    return table


def constructors() -> dict[str, Callable[[Any, yaml.Node], object]]:
    """Return the functions that read a scalar, by tag."""
    return {f"{_TAG}int": _scalar(integer), f"{_TAG}float": _scalar(number)}


def _scalar(read: Callable[[str], object]) -> Callable[[Any, yaml.Node], object]:
    def construct(loader: Any, node: yaml.Node) -> object:
        return read(loader.construct_scalar(node))

    return construct


def integer(text: str) -> int:
    """Return a whole number; raise ValueError for any other text.

    >>> integer("0755"), integer("0o17"), integer("-0x1F"), integer("1_000")
    (493, 15, -31, 1000)
    """
    plain = text.replace("_", "")
    if _OCTAL.fullmatch(plain):
        return int(plain, 8)
    return int(plain, 0)


def number(text: str) -> float | int:
    """Return a number, a whole one as an integer, as it is in Pulumi's JSON; raise ValueError for any other text.

    >>> number("1e3"), number("08"), number("1.30"), number("-.inf")
    (1000, 8, 1.3, -inf)
    """
    plain = text.replace("_", "").lower()
    value = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    return int(value) if abs(value) < _EXACT and value.is_integer() else value


def surprise(node: yaml.Node) -> tuple[str, str] | None:
    """Return cause and hint for a number that is read as another one than it appears to be, or None."""
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return None
    text = node.value
    if node.tag == f"{_TAG}int" and _OCTAL.fullmatch(text) and (value := integer(text)) != int(text.replace("_", "")):
        return f"`{text}` is an octal number: {value}", f'write "{text}" in quotes if it is text, or {text.lstrip("0")} if it is a number'
    if _PADDED.fullmatch(text):
        return f"`{text}` is read as the number {int(text)}", f'write "{text}" in quotes if it is text, or {int(text)} if it is a number'
    return None
