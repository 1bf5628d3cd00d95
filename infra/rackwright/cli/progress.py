"""Progress, warnings and messages of a command, on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rackwright.model.finding import Finding


async def show_progress(text: str) -> None:
    """Print one line that the next one overwrites, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)


def show_warning(finding: Finding) -> None:
    """Print a finding as `path: cause`, followed by its hint."""
    print(finding, file=sys.stderr)


def show_message(text: str) -> None:
    """Print one message that stays."""
    typer.echo(text, err=True)
