"""The thresholds as a page: docs/acceptance-thresholds.md is what this writes, and a test holds the two equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rackwright.catalog import rows
from rackwright.catalog.figures import Figure, NodeRange, figures
from rackwright.catalog.thresholds import LEAST_MESSAGE_BYTES, LEAST_SHARE, Threshold, thresholds

_HEAD: Final = f"""# Thresholds of the acceptance

Written by `rackwright.catalog.thresholds_page` from `figures.csv`, `thresholds.csv` and `tolerances.csv` of `infra/rackwright/catalog`;
`pytest --update-golden tests/unit/catalog/test_thresholds.py` writes it anew.

No phase that measures a GPU or a fabric has run on real hardware yet. Parsers and judges were tested on texts, most of them written
after the tools' sources: `tests/unit/acceptance/captured/SOURCES.yml` says which of them a machine printed.

## How a number is judged

1. A value above the specification is `unknown`: the measurement is wrong.
2. Where a threshold is listed below, a value that misses it fails. A threshold is a share of a figure; figure and share each have a
   source and a date, and a row without one cannot be read.
3. Where the cluster has its own baseline, the figures of its first run that passed, a value that is worse by more than the tolerance
   fails.
4. Where a node has two peers or more, a value that is worse than their median by more than the tolerance fails, and the node is named.
5. Where none of these is there, the value is told and becomes the baseline.

Bandwidth alone never passes: results must be right, data must go over the declared network (sockets fail whatever the bandwidth),
NICs must reach GPU memory themselves, and somebody must have looked while it ran. Twice the GPUs must do nearly twice the work.

In the lab storage is measured and told, and held against nothing: its containers share one machine with whatever else runs there. So
are main memory and its copies wherever the capacity of nodes is simulated. What needs a GPU or a fabric is skipped there.

The catalogue refuses a threshold above the specification or above the best figure on record, one below {LEAST_SHARE:.0%} of it, one in a
unit of something else, one for collectives at messages below {LEAST_MESSAGE_BYTES // 2**30} GiB, one that nobody has a figure for, and two
that say different things about the same. Thresholds published elsewhere that are wrong for these reasons are rows of
`tests/unit/catalog/published_thresholds.csv`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_thresholds(), "", *_tolerances(), "", *_figures(), ""])


def _table(titles: Iterable[str], lines: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(titles)
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    yield from (f"| {' | '.join(each)} |" for each in lines)


def _thresholds() -> Iterator[str]:
    yield "## Thresholds\n"
    yield from _table(("threshold", "value", "is", "nodes", "message", "why this share", "date"), map(_threshold, thresholds().values()))


def _threshold(each: Threshold) -> tuple[str, ...]:
    sign = "≤" if each.base.quantity.lower_is_better else "≥"
    value = f"{sign} {each.value:,.4g} {each.base.quantity.unit.value}".replace(",", "")
    what = (f"`{each.id}`", value, f"{each.share:g} × `{each.base.id}`")
    return (*what, _nodes(each.nodes), _bytes(each.base.message_bytes), each.source, str(each.date))


def _tolerances() -> Iterator[str]:
    yield "## Tolerances against baseline and peers\n"
    lines = ((f"`{row['quantity']}`", f"{float(row['tolerance']):.0%}", row["source"], row["date"]) for row in rows("tolerances"))
    yield from _table(("quantity (`*`: all others)", "tolerance", "source", "date"), lines)


def _figures() -> Iterator[str]:
    yield "## Figures\n"
    yield "`spec` cannot be exceeded, `measured` was seen on a machine that was in order, `gate` is what an operator lets pass.\n"
    titles = ("figure", "hardware", "value", "kind", "nodes", "over", "direction", "message", "source", "date")
    yield from _table(titles, map(_figure, figures().values()))


def _figure(each: Figure) -> tuple[str, ...]:
    what = (f"`{each.id}`", each.hardware, f"{each.value:g} {each.unit.value}", each.kind.value)
    where = (_nodes(each.nodes), each.transport or "-", each.direction or "-", _bytes(each.message_bytes))
    return (*what, *where, each.source, str(each.date))


def _nodes(nodes: NodeRange) -> str:
    if nodes.most is None:
        return f"{nodes.least} or more" if nodes.least else "any"
    return str(nodes.least)


def _bytes(count: int | None) -> str:
    """In the largest unit that divides it.

    >>> _bytes(2**34), _bytes(2), _bytes(None)
    ('16 GiB', '2 B', '-')
    """
    if count is None:
        return "-"
    unit, size = next((unit, size) for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)) if count % size == 0)
    return f"{count // size} {unit}"
