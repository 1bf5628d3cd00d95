"""The errors that users see: path, cause, hint. Findings about a stack file are values (`rackwright.model.finding`), not errors."""

from __future__ import annotations

from typing import ClassVar, Final

OUTPUT_LOST: Final = 141
"""Exit code of a command whose standard output was closed before the last byte: what a shell reports for SIGPIPE, 128 + 13 (signal(7))."""


class RackwrightError(Exception):
    """An error that the user can resolve; printed as `path: cause` followed by the hint, never as a traceback."""

    exit_code: ClassVar[int] = 1

    def __init__(self, cause: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(cause)
        self.path = path
        self.cause = cause
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.cause}" + (f"\n  {self.hint}" if self.hint else "")


class InputError(RackwrightError):
    """The command line or the stack file is invalid (exit code 2)."""

    exit_code: ClassVar[int] = 2


class UndeterminedError(RackwrightError):
    """The state could not be determined (exit code 3)."""

    exit_code: ClassVar[int] = 3
