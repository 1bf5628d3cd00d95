"""The one error a user may see: where, what, what now. Findings about a stack file are values (`rackwright.model.finding`), not errors."""

from __future__ import annotations

from typing import ClassVar


class RackwrightError(Exception):
    """Something a person can act on; shown as `path: cause` and the hint below it, never as a traceback."""

    exit_code: ClassVar[int] = 1

    def __init__(self, cause: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(cause)
        self.path = path
        self.cause = cause
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.cause}" + (f"\n  {self.hint}" if self.hint else "")


class BadInput(RackwrightError):
    """What was asked for, or its description, is wrong (exit code 2)."""

    exit_code: ClassVar[int] = 2


class CouldNotTell(RackwrightError):
    """The truth could not be found out (exit code 3)."""

    exit_code: ClassVar[int] = 3
