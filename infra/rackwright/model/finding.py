"""What validation has to say: collected, never raised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from enum import StrEnum


class Severity(StrEnum):
    """How bad: an error refuses `up`, a warning is shown, information is for the curious."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say about a stack file: where, what, what now."""

    level: Severity
    rule: str
    path: str
    """Like `groups.worker.count`; `file:line:column` where the file cannot be read."""
    cause: str
    hint: str = ""

    @property
    def is_error(self) -> bool:
        """Whether it refuses `up`."""
        return self.level is Severity.ERROR

    def __str__(self) -> str:
        mark = "" if self.level is Severity.ERROR else f" ({self.level})"
        return f"{self.path}{mark}: {self.cause}" + (f"\n  {self.hint}" if self.hint else "")

    def to_data(self) -> dict[str, str]:
        """The finding as `validate --json` prints it."""
        return asdict(self)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether anything in it refuses `up`."""
    return any(finding.is_error for finding in findings)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    return next(iter(get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest known word, or the list of them.

    >>> did_you_mean("wroker", ["login", "worker"])
    'did you mean `worker`?'
    """
    choices = sorted(known)
    near = nearest(word, choices)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"known: {', '.join(choices)}" if choices else "none are declared"
