"""Verdicts on scaling: throughput at n GPUs over n times that of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.catalog.reference_values import Quantity
from rackwright.catalog.thresholds import threshold
from rackwright.checks.acceptance.phase import Finding, Measurement, unknown
from rackwright.report.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Scaling:
    """One step from the smallest number of GPUs to a larger one."""

    base: int
    gpus: int
    base_throughput: float
    throughput: float

    @property
    def efficiency(self) -> float:
        """Return the efficiency: 1 if throughput grows in proportion to GPUs.

        >>> round(Scaling(8, 16, 331_842, 136_970).efficiency, 3)
        0.206
        """
        return self.throughput / (self.base_throughput * self.gpus / self.base)


def steps(points: Mapping[int, float]) -> tuple[Scaling, ...]:
    """Return the steps from the smallest number of GPUs to each larger one. `points`: throughput by number of GPUs."""
    if not points:
        return ()
    base = min(points)
    return tuple(Scaling(base, gpus, points[base], points[gpus]) for gpus in sorted(points) if gpus != base)


def scaling(check: str, node: str, points: Mapping[int, float], unit: str) -> Finding:
    """Return the verdict over all steps: unknown with fewer than two points, failed at the first step that does not reach the threshold."""
    limit = threshold(Quantity.SCALING, "*")
    if limit is None or len(points) < 2 or not all(value > 0 for value in points.values()):
        return unknown(check, node, f"{len(points)} of at least 2 numbers of GPUs were measured, so there is nothing to compare")
    measured = tuple(Measurement(f"efficiency-{each.gpus}", each.efficiency, "share") for each in steps(points))
    expected = f"at least {limit.value:.0%} of linear (threshold {limit.id})"
    found = ", ".join(f"{each.gpus} GPUs {each.efficiency:.0%}" for each in steps(points))
    for each in steps(points):
        if not limit.holds(each.efficiency):
            less = " and less than they do" if each.throughput < each.base_throughput else ""
            reason = (
                f"{each.gpus} GPUs do {each.throughput:,.0f} {unit} where {each.base} do {each.base_throughput:,.0f}: "
                f"{each.efficiency:.0%} of linear{less}"
            )
            return Finding(check, node, Verdict.FAILED, reason, expected, found, measured)
    return Finding(check, node, Verdict.PASSED, "", expected, found, measured)
