"""Export of spans to a collector that answers, refuses, or does not answer: the caller never waits."""

from __future__ import annotations

import http.server
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from rackwright.drivers import otlp
from rackwright.report.spans import Span, as_otlp

DOCUMENT = as_otlp("lab", "0af7651916cd43dd8448eb211c80319c", [Span("up", 1.0, 2.0)])
TOKEN = "t0p-s3cret"


class Collector(http.server.ThreadingHTTPServer):
    """A collector that keeps what it receives."""

    def __init__(self) -> None:
        self.received: queue.Queue[tuple[str, str, str, bytes]] = queue.Queue()
        self.status = 200
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.received.put((self.path, self.headers["Content-Type"], self.headers.get("Authorization", ""), body))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer%20{TOKEN}")
        yield server
        server.shutdown()


@pytest.mark.parametrize(("protocol", "form"), [("http/protobuf", "application/x-protobuf"), ("http/json", "application/json")])
def test_collector_receives_spans_and_headers(collector: Collector, monkeypatch: pytest.MonkeyPatch, protocol: str, form: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    otlp.start_export(DOCUMENT)
    path, content, authorization, body = collector.received.get(timeout=60)
    assert (path, content, authorization) == ("/v1/traces", form, f"Bearer {TOKEN}")
    assert body == (otlp.as_protobuf(DOCUMENT) if protocol == "http/protobuf" else json.dumps(DOCUMENT).encode())


def test_refusal_is_a_reason_without_headers(collector: Collector) -> None:
    collector.status = 401
    to = otlp.exporter(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}", "OTEL_EXPORTER_OTLP_HEADERS": f"a={TOKEN}"}
    )
    assert to is not None
    assert otlp.send(DOCUMENT, to) == "status 401"


def test_collector_that_does_not_answer_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5000")
        began = time.monotonic()
        otlp.start_export(DOCUMENT)
        assert time.monotonic() - began < 4, "the caller waited for the export"


def test_unreachable_collector_is_a_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert otlp.send(DOCUMENT, otlp.Exporter(f"http://127.0.0.1:{port}/v1/traces", {}, timeout=5)) == "URLError"
