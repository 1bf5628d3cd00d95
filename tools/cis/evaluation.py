"""Decide items from what was read on a node. What could not be read is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any

import yaml

from cis.items import FileRule, Item, ValueRule
from rackwright.yaml_loader import load_yaml


class Verdict(StrEnum):
    """Whether an item holds on a node."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """The verdict of an item on a node, with what was found."""

    item: Item
    node: str
    verdict: Verdict
    found: str

    @property
    def is_difference(self) -> bool:
        """Return whether the verdict is not the one of the table: a deviation that no longer exists is a difference, too."""
        return self.verdict is not (Verdict.FAILS if self.item.deviates else Verdict.HOLDS)


@dataclass(frozen=True)
class NodeFacts:
    """What a node reported (programs/read_node.py)."""

    arguments: Mapping[str, Sequence[str] | None]
    files: Mapping[str, Sequence[tuple[str, str, str, str]]]
    texts: Mapping[str, str]


def evaluate(item: Item, node: str, facts: NodeFacts) -> Finding:
    """Return the finding of an item on a node."""
    verdict, found = _file(item.rule, facts) if isinstance(item.rule, FileRule) else _value(item.rule, facts)
    return Finding(item, node, verdict, found)


def _file(rule: FileRule, facts: NodeFacts) -> tuple[Verdict, str]:
    rows = facts.files.get(rule.pattern)
    if not rows:
        return (Verdict.HOLDS if rule.may_be_absent and rows is not None else Verdict.UNKNOWN), f"{rule.pattern}: no such file"
    wrong = [row for row in rows if not _is_protected(rule, row)]
    shown = "; ".join(f"{path} {user}:{group} {mode}" for path, user, group, mode in wrong or rows[:1])
    return (Verdict.FAILS if wrong else Verdict.HOLDS), shown


def _is_protected(rule: FileRule, row: tuple[str, str, str, str]) -> bool:
    _, user, group, mode = row
    return (rule.mode is None or not int(mode, 8) & ~rule.mode) and rule.owner in ("", f"{user}:{group}")


def _value(rule: ValueRule, facts: NodeFacts) -> tuple[Verdict, str]:
    """Return the verdict over all names of the rule: each must meet its condition."""
    words = facts.arguments.get(rule.daemon)
    if words is None:
        return Verdict.UNKNOWN, f"{rule.daemon} does not run"
    try:
        found = {name: _setting(name, facts) if rule.setting else argument(words, name) for name in rule.names}
    except ValueError as error:
        return Verdict.UNKNOWN, str(error)
    holds = all(_meets(rule, value) for value in found.values())
    shown = ", ".join(f"{name} is not set" if value is None else f"{name}={value}" for name, value in found.items())
    return (Verdict.HOLDS if holds else Verdict.FAILS), shown


def argument(words: Sequence[str], name: str) -> str | None:
    """Return the value of an argument, the last one if it is repeated; `true` for one without a value; None if it is absent.

    >>> argument(["--a=1", "--b", "2", "--c", "--a=3"], "a"), argument(["--b", "2", "--c"], "b"), argument(["--c"], "c")
    ('3', '2', 'true')
    >>> argument([], "a") is None
    True
    """
    value = None
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        key, separator, given = word.partition("=")
        if key == f"--{name}":
            value = given if separator else "true" if following.startswith("--") else following
    return value


def _setting(name: str, facts: NodeFacts) -> str | None:
    """Return a setting of the kubelet: drop-ins in their order over kubeadm's file. Raises ValueError if it cannot be read."""
    if not facts.texts:
        raise ValueError("the kubelet's configuration was not found")
    main = argument(facts.arguments.get("kubelet") or (), "config")
    if main is not None and main not in facts.texts:
        raise ValueError(f"{main}: no such file")
    value: Any = None
    for path, text in facts.texts.items():
        try:
            document = load_yaml(text) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: {error}") from None
        found = _nested(document, name.split("."))
        value = value if found is None else found
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _nested(document: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _meets(rule: ValueRule, value: str | None) -> bool:
    if value is None:
        return rule.absent
    if rule.condition in ("is_set", "is_unset"):
        return (value != "") is (rule.condition == "is_set")
    if rule.condition == "is":
        return _plain(value) == _plain(rule.operand)
    if rule.condition == "at_least":
        return value.isdecimal() and int(value) >= int(rule.operand)
    return (rule.operand in value.split(",")) is (rule.condition == "has")


def _plain(value: str) -> str:
    """Return one word for the words that Go accepts as a truth value (strconv.ParseBool)."""
    return {"0": "false", "f": "false", "1": "true", "t": "true"}.get(value.lower(), value.lower())
