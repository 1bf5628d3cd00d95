"""docs/reference/metrics.md: the Prometheus metrics of a drift scan, read from the exposition of an empty scan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rackwright.drift.document import DriftReport
from rackwright.drift.metrics import as_text
from reference.markdown import cell, head, table

_TEXT: Final = """The drift scan writes these metrics to the file that the stack file names in `drift`: [drift](../drift.md) explains
the set-up. Every series exists after each scan, with 0 if nothing was found, so that an alert always has data.
`stack` is the name of the stack.
"""


def page() -> str:
    """Return the whole page."""
    lines = table(("metric", "type", "labels", "meaning"), (_row(metric) for metric in _metrics()))
    values = table(("metric", "label", "values"), (row for metric in _metrics() for row in _values(metric)))
    return "\n".join([head("Metrics", "the exposition of a scan", _TEXT), *lines, "## Label values", "", *values])


def _metrics() -> list[Metric]:
    return list(text_string_to_metric_families(as_text(DriftReport("STACK", "", datetime(2000, 1, 1, tzinfo=UTC), 0.0, ()))))


def _row(metric: Metric) -> tuple[str, str, str, str]:
    return f"`{metric.name}`", metric.type, ", ".join(f"`{label}`" for label in metric.samples[0].labels), cell(metric.documentation)


def _values(metric: Metric) -> Iterator[tuple[str, str, str]]:
    for label in metric.samples[0].labels:
        if label != "stack":
            values = dict.fromkeys(sample.labels[label] for sample in metric.samples)
            yield f"`{metric.name}`", f"`{label}`", ", ".join(f"`{value}`" for value in values)
