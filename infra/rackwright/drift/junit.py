"""JUnit XML of a drift scan for CI systems: one suite per layer."""

from __future__ import annotations

from typing import Final

from rackwright.drift.difference import CLUSTER, Category, DriftItem, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.junit_xml import Case, Outcome, Suite, render

_LOOK: Final = "the layer was scanned"


def as_junit(found: DriftReport) -> str:
    """Return JUnit XML: a difference is a failure, an unknown result or a layer that was not scanned an error, an expected one skipped."""
    missing = [LayerScan(layer, 0.0, unknown=((CLUSTER, "not scanned"),)) for layer in found.missing]
    suites = [_suite(found, look) for look in (*found.looks, *missing)]
    return render(suites, f"rackwright drift {found.stack}", found.seconds)


def _suite(found: DriftReport, look: LayerScan) -> Suite:
    name = f"drift.{look.layer.value}"
    differences = [_case(one) for one in look.differences]
    unknown = [Case(name, f"{_LOOK}[{node}]", Outcome.ERROR, why) for node, why in look.unknown]
    cases = (*differences, *unknown) or (Case(name, _LOOK),)
    return Suite(f"{found.stack} {look.layer.value}", found.started, look.seconds, cases)


def _case(one: DriftItem) -> Case:
    return Case(
        f"drift.{one.layer.value}",
        f"{one.subject}[{one.node}]",
        Outcome.SKIPPED if one.category is Category.EXPECTED else Outcome.FAILURE,
        message=f"{one.category.value}: declared {one.declared}, live {one.live}",
        text=one.remedy,
    )
