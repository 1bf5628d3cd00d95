"""Minimum speed of hardware: a share of a figure that has a source. Thresholds that cannot be right are rejected."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from rackwright.catalog import rows
from rackwright.catalog.reference_values import Kind, NodeRange, Quantity, ReferenceValue, Unit, reference_values, required_cell

MIN_SHARE: Final = 0.5
"""Smallest share: a threshold below half of the hardware's known speed would pass broken machines."""
MIN_MESSAGE_BYTES: Final = 2**32
"""Minimum size at which a collective shows the bandwidth of the links: 256 MB is too small (NVIDIA in NVIDIA/nccl-tests#212)."""
COLLECTIVES: Final = frozenset({Quantity.ALL_REDUCE, Quantity.ALL_GATHER, Quantity.REDUCE_SCATTER, Quantity.ALLTOALL, Quantity.NIC_BUSBW})


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a measured value: a minimum, or a maximum if lower is better."""

    id: str
    quantity: Quantity
    hardware: str
    nodes: NodeRange
    message_bytes: int | None
    unit: Unit
    value: float
    source: str
    date: datetime.date


@dataclass(frozen=True, slots=True)
class Threshold:
    """A share of a figure."""

    id: str
    base: ReferenceValue
    share: float
    nodes: NodeRange
    source: str
    """Source of the share; the figure has its own source."""
    date: datetime.date

    @property
    def value(self) -> float:
        """Return the value in the unit in which the quantity is reported."""
        return self.base.reported * self.share

    @property
    def limit(self) -> Limit:
        """Return the threshold as a limit."""
        base = self.base
        return Limit(
            self.id, base.quantity, base.hardware, self.nodes, base.message_bytes, base.quantity.unit, self.value, self.source, self.date
        )

    def holds(self, value: float) -> bool:
        """Return whether a value, in the unit of the quantity, is within the limit."""
        return value <= self.value if self.base.quantity.lower_is_better else value >= self.value


@cache
def thresholds() -> Mapping[str, Threshold]:
    """Return all thresholds by id."""
    known = reference_values()
    return {
        row["id"]: Threshold(
            id=row["id"],
            base=known[row["base"]],
            share=float(row["share"]),
            nodes=NodeRange.parse(row["nodes"]),
            source=required_cell(row, "source"),
            date=datetime.date.fromisoformat(row["date"]),
        )
        for row in rows("thresholds")
    }


def threshold(quantity: Quantity, hardware: str, nodes: int = 1) -> Threshold | None:
    """Return the threshold for this hardware and number of nodes; None without a published figure: only the own baseline applies then."""
    fitting = (each for each in thresholds().values() if each.base.quantity is quantity and nodes in each.nodes)
    return next((each for each in fitting if each.base.hardware in (hardware, "*")), None)


@cache
def _tolerances() -> Mapping[str, float]:
    return {row["quantity"]: float(row["tolerance"]) for row in rows("tolerances")}


def tolerance(quantity: Quantity) -> float:
    """Return the allowed deviation from the hardware's own baseline, and from the median of its peers, as a share."""
    known = _tolerances()
    return known.get(quantity.value, known["*"])


def validate_threshold(limit: Limit, known: Iterable[ReferenceValue] | None = None) -> tuple[str, ...]:
    """Return the reason why a threshold cannot be right; empty if there is none."""
    if limit.unit.dimension is not limit.quantity.unit.dimension:
        return (f"{limit.unit.value} is not a unit of {limit.quantity.value}, which is in {limit.quantity.unit.value}",)
    found = [each for each in (known or reference_values().values()) if _comparable(each, limit)]
    return tuple(_objections(limit, found))


def _objections(limit: Limit, known: list[ReferenceValue]) -> Iterator[str]:
    value = limit.unit.to(limit.quantity.unit, limit.value)
    unit = limit.quantity.unit.value
    if not limit.source.strip():
        yield "it has no source"
    if limit.quantity in COLLECTIVES and (limit.message_bytes or 0) < MIN_MESSAGE_BYTES:
        yield f"messages of {limit.message_bytes or 0} bytes are too small to show what the links carry"
    if not known:
        yield "no figure is on record that it could be compared with"
        return
    best = _best(limit, known)
    worse = operator.gt if limit.quantity.lower_is_better else operator.lt
    ceiling = [each.reported for each in known if each.kind is Kind.SPEC]
    if any(worse(each, value) for each in ceiling):
        yield f"{value:g} {unit} is above the physical ceiling of {min(ceiling):g}"
    elif worse(best, value):
        yield f"{value:g} {unit} is above the best on record, {best:g}"
    share = best / value if limit.quantity.lower_is_better else value / best
    if share < MIN_SHARE:
        yield f"{value:g} {unit} is {share:.1%} of {best:g}, what the hardware is known to do: less than {MIN_SHARE:.0%}"


def _comparable(figure: ReferenceValue, limit: Limit) -> bool:
    """Return whether both figures measure the same quantity on the same hardware."""
    same = figure.quantity is limit.quantity and figure.hardware in (limit.hardware, "*")
    return same and (not limit.nodes.minimum or not figure.nodes.minimum or figure.nodes.several == limit.nodes.several)


def _best(limit: Limit, known: list[ReferenceValue]) -> float:
    """Return the best measured value with messages no larger than the threshold's; else that of larger messages or the specification."""
    seen = [each for each in known if each.kind is not Kind.SPEC]
    small = [each for each in seen if (each.message_bytes or 0) <= (limit.message_bytes or 0)]
    values = [each.reported for each in small or seen or known]
    return min(values) if limit.quantity.lower_is_better else max(values)


def contradictions(limits: Iterable[Limit]) -> tuple[str, ...]:
    """Return thresholds that contradict each other."""
    groups: dict[tuple[object, ...], list[Limit]] = {}
    for limit in limits:
        groups.setdefault((limit.quantity, limit.hardware, limit.nodes), []).append(limit)
    return tuple(
        f"{quantity} on {hardware}: " + ", ".join(f"{each.value:g} {each.unit.value} ({each.source})" for each in group)
        for (quantity, hardware, _), group in groups.items()
        if len({each.unit.to(each.quantity.unit, each.value) for each in group}) > 1
    )
