"""Plain tables: columns aligned by spaces, readable in a pipe and in a log."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under their heads; empty cells show as `-`.

    >>> print(table(["node", "gpus"], [["worker0", 8], ["login0", None]]))
    node     gpus
    worker0  8
    login0   -
    """
    cells = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return ", ".join(str(part) for part in value) if isinstance(value, (list, tuple)) else str(value)
