"""Plain tables: columns aligned with spaces, readable in pipes and logs."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a header line; empty cells are `-`.

    >>> print(table(["node", "gpus"], [["worker0", 8], ["login0", None]]))
    node     gpus
    worker0  8
    login0   -
    """
    cells = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "node"), counted(0, "GPU")
    ('1 node', '0 GPUs')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return ", ".join(str(part) for part in value) if isinstance(value, (list, tuple)) else str(value)
