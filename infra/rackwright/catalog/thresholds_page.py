"""Generation of docs/acceptance-thresholds.md from the thresholds; a test compares the file with the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rackwright.catalog import rows
from rackwright.catalog.reference_values import NodeRange, ReferenceValue, reference_values
from rackwright.catalog.thresholds import MIN_MESSAGE_BYTES, MIN_SHARE, Threshold, thresholds

_HEAD: Final = f"""# Acceptance thresholds

`rackwright.catalog.thresholds_page` generates this page from `figures.csv`, `thresholds.csv` and `tolerances.csv` of
`infra/rackwright/catalog`. `pytest --update-golden tests/unit/catalog/test_thresholds.py` generates it again.

Evidence: the programs that measure GPUs ran on an H100 and an H200 ([evidence](evidence/README.md#gpus)). No phase ran on a cluster
with GPUs or a fabric. Parsers and evaluators are tested on text; `tests/unit/acceptance/captured/SOURCES.yml` lists captured texts.

## How a value is judged

1. A value above the specification is `unknown`: the measurement is wrong.
2. A value that misses a threshold of this page fails. A threshold is a share of a figure. Figure and share have a source and a date; a row
   without them is refused.
3. A value that is worse than the cluster's own baseline by more than the tolerance fails. The baseline is the cluster's first passed run.
4. A value that is worse than the median of two or more peers by more than the tolerance fails, and the report names the node.
5. Without threshold, baseline and peers, the value is reported and becomes the baseline.

Bandwidth alone never passes. Results must be right, data must use the declared network (sockets fail at any bandwidth), NICs must reach GPU
memory directly, and the run must have been sampled. Twice the GPUs must do nearly twice the work.

## In the lab

- Storage, main memory and its copies are measured and reported without a threshold: containers share one machine.
- Checks of GPU and fabric speed are skipped.

## What the catalogue refuses

- a threshold above the specification or above the best figure on record
- a threshold below {MIN_SHARE:.0%} of the best figure
- a threshold in the unit of another quantity
- a threshold for collectives at messages below {MIN_MESSAGE_BYTES // 2**30} GiB
- a threshold without a figure, and two thresholds for the same quantity

`tests/unit/catalog/published_thresholds.csv` lists published thresholds that are wrong for these reasons.
"""


def page() -> str:
    """Return the whole page."""
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
    yield from _table(titles, map(_figure, reference_values().values()))


def _figure(each: ReferenceValue) -> tuple[str, ...]:
    what = (f"`{each.id}`", each.hardware, f"{each.value:g} {each.unit.value}", each.kind.value)
    where = (_nodes(each.nodes), each.transport or "-", each.direction or "-", _bytes(each.message_bytes))
    return (*what, *where, each.source, str(each.date))


def _nodes(nodes: NodeRange) -> str:
    if nodes.maximum is None:
        return f"{nodes.minimum} or more" if nodes.minimum else "any"
    return str(nodes.minimum)


def _bytes(count: int | None) -> str:
    """Return the size in the largest unit that divides it.

    >>> _bytes(2**34), _bytes(2), _bytes(None)
    ('16 GiB', '2 B', '-')
    """
    if count is None:
        return "-"
    unit, size = next((unit, size) for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)) if count % size == 0)
    return f"{count // size} {unit}"
