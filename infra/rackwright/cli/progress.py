"""Progress of a command, on standard error."""

from __future__ import annotations

import sys


async def show_progress(text: str) -> None:
    """Print one line that the next one overwrites, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
