"""Marks of an interrupted run, and the commands that continue it."""

from __future__ import annotations

import os
import signal

from shim import IS_INSTALLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "RACKWRIGHT_CANCELLED"
"""Path of a file that the provider creates when a run is cancelled: at a terminal the engine reads Ctrl-C as a key, without a signal."""

ENGINE_CANCELLED = 8
"""Exit code of an engine that was interrupted (sdk/go/common/util/cmdutil/exit.go)."""

_FULL_NAMES = {"update": "up", "down": "destroy", "dn": "destroy", "pre": "preview"}
_LEFT = {
    "up": "Finished resources are on record; unfinished ones are continued by the next run.",
    "destroy": "Deleted resources are off the record; the others still exist.",
    "refresh": "No node was changed.",
    "preview": "Nothing was changed.",
}


def verb(subcommand: str) -> str:
    """Return the full name of a subcommand that runs an operation on a stack; empty for others."""
    name = _FULL_NAMES.get(subcommand, subcommand)
    return name if name in _LEFT else ""


def exit_code(number: int) -> int:
    """Return the exit code that a shell reports for a command that a signal ended."""
    return 128 + (number or signal.SIGINT)


def message(operation: str, stack: str, environ: Mapping[str, str]) -> str:
    """Return the last lines of an interrupted run, with commands for the program that started it: `make` or `pulumi`."""
    commands = {"continue": _command(operation, stack, environ)}
    if operation == "up":
        commands["remove everything"] = _command("destroy", stack, environ)
    steps = "".join(f"\n  to {purpose}: {command}" for purpose, command in commands.items())
    return f"stack {stack}: {operation} was interrupted. {_LEFT[operation]}{steps}"


def _command(operation: str, stack: str, environ: Mapping[str, str]) -> str:
    target = {"up": "up", "destroy": "down"}.get(operation)
    if target and IS_INSTALLED:
        return f"rackwright {target} {stack}"  # uv puts no `pulumi` on PATH
    return f"make {target} STACK={stack}" if target and environ.get("MAKELEVEL") else f"pulumi {operation} -s {stack}"


def was_cancelled(mark: str) -> bool:
    """Return whether the provider left the mark, and remove the mark."""
    try:
        os.unlink(mark)
    except OSError:
        return False
    return True
