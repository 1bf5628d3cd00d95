"""Answers of Prometheus to a query, and stacks that have no Prometheus to ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rackwright.drivers.monitoring_relay import RelayAnswer
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.monitor.connection import server_of
from rackwright.operations.monitor.query import parse
from rackwright.yaml_loader import load_yaml


def answer(kind: str, result: Any, status: int = 200) -> RelayAnswer:
    return RelayAnswer(
        status, "application/json", json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()
    )


VECTOR = [
    {"metric": {"__name__": "up", "instance": "login0", "job": "node"}, "value": [1795784783.5, "1"]},
    {"metric": {"__name__": "up", "instance": "worker0"}, "value": [1795784783.5, "NaN"]},
]


@pytest.mark.parametrize(
    ("found", "heads", "rows"),
    [
        (answer("vector", VECTOR), ["metric", "instance", "job", "value"], [["up", "login0", "node", "1"], ["up", "worker0", "", "NaN"]]),
        (answer("vector", []), ["value"], []),
        (answer("scalar", [1795784783.5, "4"]), ["value"], [["4"]]),
        (
            answer("matrix", [{"metric": {"job": "node"}, "values": [[1, "0"], [16.25, "+Inf"]]}]),
            ["job", "time", "value"],
            [["node", "1.000", "0"], ["node", "16.250", "+Inf"]],
        ),
    ],
    ids=["vector", "empty", "scalar", "range"],
)
def test_result_is_a_table(found: RelayAnswer, heads: list[str], rows: list[list[str]]) -> None:
    assert parse(found, "lab", "up").rows() == (heads, rows)


def test_result_is_data_without_nan() -> None:
    data = parse(answer("vector", VECTOR), "lab", "up").data()
    assert json.loads(json.dumps(data, allow_nan=False)) == {
        "stack": "lab",
        "query": "up",
        "type": "vector",
        "series": [
            {"labels": VECTOR[0]["metric"], "samples": [[1795784783.5, "1"]]},
            {"labels": VECTOR[1]["metric"], "samples": [[1795784783.5, "NaN"]]},
        ],
    }


@pytest.mark.parametrize("status", [400, 422])
def test_invalid_expression_is_an_input_error(status: int) -> None:
    said = {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "query": 1:3: parse error: unexpected end of input'}
    with pytest.raises(InputError, match="unexpected end of input") as error:
        parse(RelayAnswer(status, "application/json", json.dumps(said).encode()), "lab", "up{")
    assert error.value.path == "--query"


@pytest.mark.parametrize(
    "found",
    [
        RelayAnswer(503, "text/plain", b"Service Unavailable"),
        RelayAnswer(200, "text/html", b"<html>"),
        RelayAnswer(200, "application/json", b"{}"),
        RelayAnswer(200, "application/json", b"[]"),
        RelayAnswer(400, "application/json", b'{"status": "success"}'),
        RelayAnswer(200, "application/json", b""),
        RelayAnswer(200, "application/json", b"\xff\xfe"),
        answer("histogram", []),
        answer("vector", [{"metric": {}, "value": [1]}]),
        answer("vector", [{"metric": [], "value": [1, "2"]}]),
        answer("matrix", [{"metric": {}}]),
        answer("scalar", None),
    ],
)
def test_other_answer_is_undetermined(found: RelayAnswer) -> None:
    with pytest.raises(UndeterminedError, match=f"Prometheus answered with status {found.status}"):
        parse(found, "lab", "up")


def declare(lab: str, monitoring: dict[str, Any] | None) -> RunningStack:
    """Give the stack's inventory this monitoring."""
    file = paths.inventory(lab)
    found = load_yaml(file.read_text(encoding="utf-8"))
    found["all"]["vars"].pop("monitoring", None)
    if monitoring is not None:
        found["all"]["vars"]["monitoring"] = monitoring
    file.write_text(yaml.safe_dump(found), encoding="utf-8")
    return RunningStack.of(lab)


def test_stack_without_monitoring_is_refused(lab: str) -> None:
    with pytest.raises(InputError, match="stack lab: has no monitoring"):
        server_of(declare(lab, None))


def test_stack_with_external_monitoring_is_refused(lab: str) -> None:
    with pytest.raises(InputError, match="no Prometheus of its own"):
        server_of(declare(lab, {"server": None, "targets": [], "nodes": []}))


def test_server_and_ports_are_those_of_the_plan(lab: str) -> None:
    targets = [{"job": "node", "node": "n0", "port": 9100}, {"job": "prometheus", "node": "n0", "port": 9090}]
    targets.append({"job": "alertmanager", "node": "n0", "port": 9093})
    assert server_of(declare(lab, {"server": "n0", "targets": targets, "nodes": []})) == ("n0", {"prometheus": 9090, "alertmanager": 9093})
