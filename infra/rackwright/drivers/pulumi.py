"""The Pulumi command of this environment, and the variable that limits what a refresh compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.drivers.shown_process import run_shown
from rackwright.errors import OUTPUT_LOST, RackwrightError
from rackwright.inventory import paths
from rackwright.stackfile.load import find_stack_file

REFRESH_SCOPE_ENV: Final = "RACKWRIGHT_REFRESH_SCOPE"
"""Environment variable: with the value `resources`, a refresh compares resources only, whatever the stack file sets."""


def executable() -> Path:
    """Return the path of this environment's `pulumi`; raise RackwrightError if it is missing."""
    found = Path(sys.executable).with_name("pulumi")
    if not found.exists():
        hint = "run `make`" if layout.is_checkout() else "run `rackwright up STACK` once: it installs the engine"
        raise RackwrightError("pulumi is not installed in this environment", hint=hint)
    return found


def run(verb: str, stack: str) -> int:
    """Run `pulumi VERB` without prompts, with its output on this process's standard output and error.

    Return its exit status, or OUTPUT_LOST if the reader of standard output closed early; the work is then complete all the same.
    """
    command = [str(executable()), verb, "--stack", stack, "--yes", "--skip-preview"]
    ended = run_shown(command, cwd=paths.project_root())
    return OUTPUT_LOST if ended.is_output_lost else ended.status


def install_prerequisites(stack: str) -> None:
    """Install what `up` needs besides the wheel: the system packages of a lab, the engine, and `pulumi` in this environment.

    Do nothing in a checkout, where `make` installs them.
    Raises InputError for an unknown stack, and RackwrightError with the reason above it on standard error.
    """
    find_stack_file(stack.rpartition("/")[2], paths.stacks())
    if layout.is_checkout():
        return
    where = ["--venv", sys.prefix, "--project", str(layout.project_root()), "--stack", stack]
    ended = run_shown([sys.executable, "-I", str(layout.product_root() / layout.BOOTSTRAP), "installed", *where])
    if ended.was_interrupted:
        raise KeyboardInterrupt
    if ended.status:
        hint = "do what the lines above say, then run the command again"
        raise RackwrightError("the engine or the packages that the stack needs are not installed", path=f"stack {stack}", hint=hint)
