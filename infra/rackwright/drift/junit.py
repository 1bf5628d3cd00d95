"""JUnit XML of a drift scan for CI systems: one suite per layer."""

from __future__ import annotations

from typing import Final

from rackwright.drift.difference import CLUSTER, Category, DriftItem, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.junit_xml import Case, Outcome, Suite, render

_SCAN: Final = "the layer was scanned"


def as_junit(found: DriftReport) -> str:
    """Return JUnit XML: a difference is a failure, an unknown result or a layer that was not scanned an error, an expected one skipped."""
    missing = [LayerScan(layer, 0.0, unknown=((CLUSTER, "not scanned"),)) for layer in found.missing]
    suites = [_suite(found, scan) for scan in (*found.layers, *missing)]
    return render(suites, f"rackwright drift {found.stack}", found.seconds)


def _suite(found: DriftReport, scan: LayerScan) -> Suite:
    name = f"drift.{scan.layer.value}"
    differences = [_case(one) for one in scan.differences]
    unknown = [Case(name, f"{_SCAN}[{node}]", Outcome.ERROR, why) for node, why in scan.unknown]
    cases = (*differences, *unknown) or (Case(name, _SCAN),)
    return Suite(f"{found.stack} {scan.layer.value}", found.started, scan.seconds, cases)


def _case(one: DriftItem) -> Case:
    return Case(
        f"drift.{one.layer.value}",
        f"{one.subject}[{one.node}]",
        Outcome.SKIPPED if one.category is Category.EXPECTED else Outcome.FAILURE,
        message=f"{one.category.value}: declared {one.declared}, live {one.live}",
        text=one.remedy,
    )
