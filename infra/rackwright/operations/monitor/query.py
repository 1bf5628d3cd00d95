"""A PromQL expression, evaluated once by the Prometheus of a running stack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

from rackwright.drivers.monitoring_relay import MonitoringRelay, RelayAnswer, RelayRequest
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.monitor.connection import connect

Kind = Literal["vector", "matrix", "scalar", "string"]
_NAME: Final = "__name__"
"""Label with the name of a metric."""
_INVALID: Final = frozenset({400, 422})
"""Status of a query that is no PromQL, or that cannot be evaluated (prometheus.io, HTTP API)."""


@dataclass(frozen=True, slots=True)
class Series:
    """Labels and samples: Unix time, and the value as Prometheus prints it, because JSON has no NaN."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What an expression evaluates to."""

    stack: str
    query: str
    kind: Kind
    series: tuple[Series, ...]

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of a table: a column for each label, then the time in a range of samples, then the value."""
        labels = sorted({name for one in self.series for name in one.labels}, key=lambda name: (name != _NAME, name))
        is_range = self.kind == "matrix"
        heads = ["metric" if name == _NAME else name for name in labels] + (["time"] if is_range else []) + ["value"]
        rows = [
            [*(one.labels.get(name, "") for name in labels), *([f"{moment:.3f}"] if is_range else []), value]
            for one in self.series
            for moment, value in one.samples
        ]
        return heads, rows

    def data(self) -> dict[str, Any]:
        """Return the result for JSON."""
        series = [{"labels": dict(one.labels), "samples": [list(sample) for sample in one.samples]} for one in self.series]
        return {"stack": self.stack, "query": self.query, "type": self.kind, "series": series}


def query_stack(stack: str, expression: str) -> QueryResult:
    """Evaluate an expression now.

    Raises InputError if the stack is not up or has no Prometheus, or if the expression is invalid; UndeterminedError without an answer.
    """
    with connect(RunningStack.of(stack)) as relay:
        return query(relay, stack, expression)


def query(relay: MonitoringRelay, stack: str, expression: str) -> QueryResult:
    """Evaluate an expression over an open session."""
    answer = relay.send(RelayRequest("prometheus", f"/api/v1/query?{urlencode({'query': expression})}"))
    return parse(answer, stack, expression)


def parse(answer: RelayAnswer, stack: str, expression: str) -> QueryResult:
    """Return the result in an answer. Raises InputError for an invalid expression, UndeterminedError for any other answer."""
    try:
        found: Any = json.loads(answer.body)
        if answer.status in _INVALID and found["status"] == "error":
            raise InputError(found["error"], path="--query", hint="see prometheus.io/docs/prometheus/latest/querying/basics")
        kind, result = found["data"]["resultType"], found["data"]["result"]
        series = tuple(_series(kind, result))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        excerpt = " ".join(answer.body.decode(errors="replace").split())[:200]
        raise UndeterminedError(f"Prometheus answered with status {answer.status}: {excerpt or 'nothing'}", path=f"stack {stack}") from None
    return QueryResult(stack, expression, kind, series)


def _series(kind: str, result: Any) -> list[Series]:
    if kind in ("scalar", "string"):
        return [Series({}, (_sample(result),))]
    if kind == "vector":
        return [Series(_labels(one["metric"]), (_sample(one["value"]),)) for one in result]
    if kind == "matrix":
        return [Series(_labels(one["metric"]), tuple(_sample(each) for each in one["values"])) for one in result]
    raise ValueError(kind)


def _labels(found: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()}


def _sample(found: Any) -> tuple[float, str]:
    moment, value = found
    return float(moment), str(value)
