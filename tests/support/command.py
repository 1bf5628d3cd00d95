"""Result of a command that a test ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LAST_LINES: Final = 80
"""Lines that `end` quotes: an engine's reasons, and those of failed checks, follow hundreds of lines of progress."""


@dataclass(frozen=True)
class CommandResult:
    """Result of one command. `output` has both streams in the order of writing; `seconds` is wall time."""

    command: str
    status: int
    output: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Return whether the exit status is 0."""
        return self.status == 0

    @property
    def end(self) -> str:
        """Return the command, its status and the last lines of its output."""
        lines = "\n".join(self.output.splitlines()[-_LAST_LINES:])
        return f"`{self.command}` ended with {self.status} after {self.seconds:.0f} s\n{lines}"
