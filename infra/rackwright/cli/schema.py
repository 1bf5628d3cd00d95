"""`rackwright schema`."""

from __future__ import annotations


def schema() -> None:
    """Print the JSON schema of stack files, for editors."""
    from rackwright.stackfile.schema import text

    print(text(), end="")
