"""Run on the node, imported by host_baseline: the mark of what a reader of a tool's output could not read.

Python 3.9, standard library only.
"""

from __future__ import annotations

UNREAD = "?"
"""Name of an entry with the reason why a part was not read, so that a name that is missing may be in that part; and the value of a name
whose value was not read. No kind has an entry of this name: links, files and accounts of Slurm have longer ones."""
LONGEST = 160
"""Characters of a quoted line."""


def note_unread(found: dict[str, str], what: str, line: str) -> None:
    """Add the reason why a part was not read: what it is, and the line that holds it. The first reason is kept."""
    shown = "".join(character if character.isprintable() else " " for character in line)
    found.setdefault(UNREAD, what + ' cannot be read: "' + " ".join(shown.split())[:LONGEST] + '"')
