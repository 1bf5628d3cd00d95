"""Log entries and their gaps as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from rackwright.printable import printable
from rackwright.report.logs.document import LogEntry, LogReport

MOST: Final = 2000
"""Characters of a message that are shown; JSON has all that were read."""


def line(entry: LogEntry, width: int = 0) -> str:
    r"""Return an entry as one line: time, node, unit, message. Control characters and line feeds are shown, not acted on.

    >>> line(LogEntry(0.5, "worker0", "slurmd", 3, 7, "error: a\nb\x1b[31m")).split(" ", 2)[2]
    'worker0 slurmd: error: a\\nb\\x1b[31m'
    """
    time = datetime.fromtimestamp(entry.time).isoformat(sep=" ", timespec="milliseconds")
    return f"{time} {printable(entry.node):<{width}} {flat(entry.unit)}: {flat(entry.message)}"


def flat(text: str) -> str:
    r"""Return a text in one line that a terminal does not act on, shortened to MOST characters.

    >>> flat("a\nb\tc\x9b")
    'a\\nb c\\x9b'
    """
    shown = printable(text[:MOST].rstrip()).replace("\n", "\\n").replace("\t", " ")
    return shown + (f" … ({len(text) - MOST} more characters)" if len(text) > MOST else "")


def lines(report: LogReport) -> Iterator[str]:
    """Yield the entries of a report."""
    width = max((len(entry.node) for entry in report.entries), default=0)
    yield from (line(entry, width) for entry in report.entries)


def remarks(report: LogReport) -> Iterator[str]:
    """Yield what a reader must know of the entries: those that are left out, and nodes that did not answer or not completely."""
    if report.limited:
        yield f"only the newest {len(report.entries)} entries are shown; raise --lines, or pass a shorter window"
    yield from _by_node((node.node, f"not read: {node.reason}") for node in report.unanswered)
    yield from _by_node((node.node, note) for node in report.nodes for note in node.notes)


def _by_node(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one line for each text, with all nodes that it is of."""
    nodes: dict[str, list[str]] = {}
    for node, text in rows:
        nodes.setdefault(text, []).append(node)
    yield from (f"{', '.join(names)}: {flat(text)}" for text, names in nodes.items())
