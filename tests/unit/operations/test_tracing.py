"""Spans: their OTLP JSON, the file beside the stack, the environment's collector, and a failure that fails nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from rackwright.drivers import otlp
from rackwright.drivers.ansible_child import Reporter
from rackwright.inventory import paths
from rackwright.operations import tracing
from rackwright.report.spans import Span, of_playbook

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TIMES = [
    ["scheduler", "munge", "worker0", "2026-11-27T16:00:00.000000", "2026-11-27T16:00:02.500000", 3, 0],
    ["scheduler", "munge", "worker1", "2026-11-27T16:00:01.000000", "2026-11-27T16:00:04.000000", 3, 1],
    ["storage", "", "storage0", "2026-11-27T15:59:00", "2026-11-27T15:59:10", 1, 0],
]


@pytest.fixture(autouse=True)
def _no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")] + [tracing.PARENT]:
        monkeypatch.delenv(name, raising=False)


def written() -> list[dict[str, Any]]:
    return [json.loads(line) for line in paths.traces("lab").read_text().splitlines()]


def spans(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


def test_playbook_has_spans_of_phases_roles_and_hosts() -> None:
    found = of_playbook(TIMES, "00f067aa0ba902b7")
    above = {span.span_id: span.name for span in found}
    assert [(span.name, above.get(span.parent_id, span.parent_id), round(span.end - span.start, 1), span.failed) for span in found] == [
        ("phase scheduler", "00f067aa0ba902b7", 4.0, True),
        ("role munge", "phase scheduler", 4.0, True),
        ("munge worker0", "role munge", 2.5, False),
        ("munge worker1", "role munge", 3.0, True),
        ("phase storage", "00f067aa0ba902b7", 10.0, False),
        ("role tasks", "phase storage", 10.0, False),
        ("tasks storage0", "role tasks", 10.0, False),
    ]


def test_times_of_events_are_summed_by_phase_role_and_host() -> None:
    reporter = Reporter({"Slurm": "scheduler"})
    reporter.handle({"event": "playbook_on_play_start", "event_data": {"name": "Slurm"}})
    for kind, start, end in (
        ("ok", "2026-11-27T16:00:01", "2026-11-27T16:00:02"),
        ("skipped", "2026-11-27T16:00:02", "2026-11-27T16:00:09"),
    ):
        data = {"host": "w0", "role": "munge", "start": start, "end": end, "res": {}}
        reporter.handle({"event": f"runner_on_{kind}", "event_data": data})
    assert reporter.times() == [["scheduler", "munge", "w0", "2026-11-27T16:00:01", "2026-11-27T16:00:09", 2, 0]]


def test_file_has_a_request_per_line(lab: str) -> None:
    assert tracing.record("lab", [Span("drift", 1.5, 2.0, {"a": 1, "b": True, "c": 0.5, "d": "x"}, failed=True)]) == ""
    tracing.record("lab", [Span("up", 3.0, 2.0)])
    first, second = written()
    (span,) = spans(first)
    assert (span["startTimeUnixNano"], span["endTimeUnixNano"], span["status"], span["kind"]) == (
        "1500000000",
        "2000000000",
        {"code": 2},
        1,
    )
    assert [one["value"] for one in span["attributes"]] == [
        {"intValue": "1"},
        {"boolValue": True},
        {"doubleValue": 0.5},
        {"stringValue": "x"},
    ]
    assert (len(span["traceId"]), len(span["spanId"]), "parentSpanId" in span) == (32, 16, False)
    assert spans(second)[0]["traceId"] == span["traceId"]
    assert spans(second)[0]["endTimeUnixNano"] == spans(second)[0]["startTimeUnixNano"]
    assert paths.traces("lab").stat().st_mode & 0o777 == 0o600


def test_spans_are_below_the_one_of_the_environment(monkeypatch: pytest.MonkeyPatch, lab: str) -> None:
    monkeypatch.setenv(tracing.PARENT, TRACE)
    inside: list[str] = []

    def work() -> int:
        inside.append(os.environ[tracing.PARENT])
        tracing.record("lab", [Span("converge", 1.0, 2.0)])
        return 0

    assert tracing.run_traced("up", "lab", work) == 0
    (converge,), (up,) = map(spans, written())
    assert (up["parentSpanId"], converge["parentSpanId"], converge["traceId"]) == ("b7ad6b7169203331", up["spanId"], TRACE.split("-")[1])
    assert os.environ[tracing.PARENT] == TRACE and inside == [f"00-{up['traceId']}-{up['spanId']}-01"]


@pytest.mark.parametrize("value", ["", "garbage", "00-xyz-b7ad6b7169203331-01"])
def test_parent_that_cannot_be_read_is_ignored(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(tracing.PARENT, value)
    assert tracing.context()[1] == ""


def test_failing_work_is_a_failed_span(lab: str) -> None:
    assert tracing.run_traced("up", "lab", lambda: 3) == 3
    with pytest.raises(KeyboardInterrupt):
        tracing.run_traced("up", "lab", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert [spans(document)[0]["status"] for document in written()] == [{"code": 2}, {"code": 2}]


def test_long_file_is_rotated(monkeypatch: pytest.MonkeyPatch, lab: str) -> None:
    monkeypatch.setattr(tracing, "_MOST", 10)
    tracing.record("lab", [Span("a", 1.0, 2.0)])
    tracing.record("lab", [Span("b", 1.0, 2.0)])
    assert [spans(one)[0]["name"] for one in written()] == ["b"]
    assert paths.traces("lab").with_name("traces.jsonl.1").exists()


def test_failure_is_returned_and_not_raised(monkeypatch: pytest.MonkeyPatch, lab: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")
    assert "the endpoint is no URL" in tracing.record("lab", [Span("a", 1.0, 2.0)])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setattr(otlp, "start_export", lambda document: (_ for _ in ()).throw(OSError("no processes left")))
    assert "no processes left" in tracing.record("lab", [Span("a", 1.0, 2.0)])
    paths.traces("lab").unlink()
    paths.traces("lab").mkdir()
    assert "spans were not recorded" in tracing.record("lab", [Span("a", 1.0, 2.0)])


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c:4318/"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (ENDPOINT, otlp.Exporter("https://c:4318/v1/traces", {})),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, otlp.Exporter("http://c/x", {})),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, None),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c, d=e=f"}, otlp.Exporter("https://c:4318/v1/traces", {"a": "b c", "d": "e=f"})),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TIMEOUT": "500"},
            otlp.Exporter("https://c:4318/v1/traces", {}, "http/json", 0.5),
        ),
    ],
)
def test_exporter_of_the_environment(environment: dict[str, str], expected: otlp.Exporter | None) -> None:
    assert otlp.exporter(environment) == expected


@pytest.mark.parametrize("more", [{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "file:///etc/passwd"}])
def test_setting_that_is_not_supported_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"not supported|no URL"):
        otlp.exporter({**ENDPOINT, **more})


def test_protobuf_is_the_same_request() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from rackwright.report.spans import as_otlp

    document = as_otlp(
        "lab", "0af7651916cd43dd8448eb211c80319c", [Span("a", 1.0, 2.0, {"n": 7}, True, "b7ad6b7169203331", "00f067aa0ba902b7")]
    )
    (span,) = ExportTraceServiceRequest.FromString(otlp.as_protobuf(document)).resource_spans[0].scope_spans[0].spans
    assert (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) == (
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
        "00f067aa0ba902b7",
    )
    assert (span.name, span.start_time_unix_nano, span.attributes[0].value.int_value, span.status.code) == ("a", 10**9, 7, 2)
