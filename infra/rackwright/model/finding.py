"""Findings of the validation: collected, never raised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from enum import StrEnum


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

    @property
    def is_error(self) -> bool:
        """Whether the finding prevents `up`."""
        return self.level is Severity.ERROR

    def __str__(self) -> str:
        mark = "" if self.level is Severity.ERROR else f" ({self.level})"
        return f"{self.path}{mark}: {self.cause}" + (f"\n  {self.hint}" if self.hint else "")

    def to_data(self) -> dict[str, str]:
        """Return the finding as printed by `validate --json`."""
        return asdict(self)


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
