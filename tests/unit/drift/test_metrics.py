"""The metrics file for Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rackwright.drift import metrics
from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport

BEGAN = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
STOPPED = DriftItem(Layer.BEHAVIOUR, "worker0", "munge.service_runs", "active", "dead", Category.BREAKING, "start it")
QUIET = (LayerScan(Layer.RESOURCES, 1.0), LayerScan(Layer.CONFIGURATION, 4.0))


def values(*scans: LayerScan) -> dict[tuple[str, ...], float]:
    """Return (name, labels…) -> value, as Prometheus' own parser reads it; every metric has the stack as label."""
    found = {}
    for family in text_string_to_metric_families(metrics.as_text(DriftReport("lab", "0" * 12, BEGAN, 5.0, scans))):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("stack") == "lab" and family.documentation
            found[(sample.name.removeprefix("rackwright_drift_"), *sorted(labels.values()))] = sample.value
    return found


def test_differences_are_counted_by_layer_and_category() -> None:
    found = values(*QUIET, LayerScan(Layer.BEHAVIOUR, 2.0, (STOPPED, STOPPED)))
    assert found["differences", "behaviour", "breaking"] == 2
    assert sum(value for name, value in found.items() if name[0] == "differences") == 2
    assert sum(name[0] == "differences" for name in found) == len(Layer) * len(Category)


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (LayerScan(Layer.BEHAVIOUR, 2.0), "clean"),
        (LayerScan(Layer.BEHAVIOUR, 2.0, (STOPPED,)), "drifted"),
        (LayerScan(Layer.BEHAVIOUR, 2.0, unknown=(("worker0", "silent"),)), "unknown"),
    ],
)
def test_exactly_one_state_is_set(last: LayerScan, state: str) -> None:
    found = values(*QUIET, last)
    assert {name[1]: value for name, value in found.items() if name[0] == "state"} == {
        **dict.fromkeys(("clean", "drifted", "unknown"), 0),
        state: 1,
    }


def test_unscanned_layer_is_not_zero() -> None:
    found = values(*QUIET)
    assert found["undetermined_items", "behaviour"] == 1 and found["state", "unknown"] == 1


def test_age_and_duration_are_exported() -> None:
    found = values(*QUIET, LayerScan(Layer.BEHAVIOUR, 2.0))
    assert found["last_completion_timestamp_seconds",] == BEGAN.timestamp() + 5
    assert (found["scan_duration_seconds",], found["layer_scan_duration_seconds", "configuration"]) == (5.0, 4.0)


def test_metrics_are_readable_by_exporter(tmp_path) -> None:
    file = tmp_path / "rackwright-lab.prom"
    metrics.write(DriftReport("lab", "0" * 12, BEGAN, 5.0, QUIET), file)
    assert file.stat().st_mode & 0o777 == 0o644 and [*tmp_path.iterdir()] == [file]
