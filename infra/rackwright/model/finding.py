"""Findings of the validation: collected, never raised."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from rackwright.model.public_keys import is_secret

_SHOWN: Final = 60
"""Models that a hint lists."""


class Severity(StrEnum):
    """Severity of a finding: with an error `up` refuses to run; a warning and information are only printed."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a stack file: path, cause, hint."""

    level: Severity
    rule: str
    path: str
    """For example `groups.worker.count`; `file:line:column` if the file cannot be parsed."""
    cause: str
    hint: str = ""
    line: int | None = None
    """Line of the stack file, for readers; not in the JSON of `validate`."""

    def __post_init__(self) -> None:
        """Replace text that holds a private key: findings are printed, logged and recorded."""
        if is_secret(self.path):
            object.__setattr__(self, "path", "rackwright:cluster")
        if is_secret(self.cause) or is_secret(self.hint):
            object.__setattr__(self, "cause", "the value holds a private key, which is not shown")
            object.__setattr__(self, "hint", "remove it from this file, and replace the key: the file may have been shared")

    @property
    def is_error(self) -> bool:
        """Return whether the finding prevents `up`."""
        return self.level is Severity.ERROR

    def __str__(self) -> str:
        marks = [f"line {self.line}"] * bool(self.line) + [str(self.level)] * (not self.is_error)
        mark = f" ({', '.join(marks)})" if marks else ""
        return f"{self.path}{mark}: {self.cause}" + (f"\n  {self.hint}" if self.hint else "")

    def to_data(self) -> dict[str, str]:
        """Return the finding as printed by `validate --json`."""
        return {"level": self.level.value, "rule": self.rule, "path": self.path, "cause": self.cause, "hint": self.hint}


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return whether a finding prevents `up`."""
    return any(finding.is_error for finding in findings)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar, or None."""
    return next(iter(get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar known word, or with the list of known words.

    >>> did_you_mean("wroker", ["login", "worker"])
    'did you mean `worker`?'
    """
    choices = sorted(known)
    near = nearest(word, choices)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"use one of: {', '.join(choices)}" if choices else "declare one first: none exists"


def nearest_of_class(word: str, known: Iterable[str]) -> str | None:
    """Return the known model that differs by a typing error only, or None.

    The figures of a model name its class, and so do the letters before them: h100-pcie is not h100, and m5.xlarge is not g5.xlarge.

    >>> nearest_of_class("h100pci", ["h100", "h100-pcie"]), nearest_of_class("m5.large", ["g5.large"])
    ('h100-pcie', None)
    """
    plain = {_letters(one): one for one in sorted(known) if _class(one) == _class(word)}
    near = next(iter(get_close_matches(_letters(word), plain, n=1, cutoff=0.85)), None)
    return plain[near] if near is not None else None


def _class(word: str) -> tuple[str, list[str]]:
    """Return the letters before the first figure, and all figures."""
    return re.split(r"[0-9]", _letters(word), maxsplit=1)[0], re.findall(r"[0-9]+", word)


def _letters(word: str) -> str:
    """Return a model's name without the characters that separate its parts."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def did_you_mean_model(word: str, known: Iterable[str], how_to_add: str) -> str:
    """Return a hint with the model that was probably meant, or with those of the same family, and how to add a row.

    >>> did_you_mean_model("h100-xyz", ["h100", "h100-nvl", "l4"], "add a row")
    'add a row; the catalogue has h100, h100-nvl'
    """
    choices = sorted(known)
    near = nearest_of_class(word, choices)
    if near is not None:
        return f"did you mean `{near}`? Otherwise {how_to_add}"
    family = [one for one in choices if one.partition("-")[0] == word.lower().partition("-")[0]]
    shown = family or choices
    listed = ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")
    return f"{how_to_add}; the catalogue has {listed}" if shown else how_to_add
