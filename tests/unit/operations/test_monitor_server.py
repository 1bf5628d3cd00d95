"""The server of `rackwright monitor`: who gets an answer, what is forwarded, and what ends it."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from rackwright.drivers.monitoring_relay import RelayAnswer, RelayRequest
from rackwright.errors import InputError, UndeterminedError
from rackwright.operations.monitor.server import BoardServer
from rackwright.report.boards.page import PageFile

PAGES = {"": PageFile(b"<p>boards</p>", "text/html; charset=utf-8"), "boards.js": PageFile(b"start()", "text/javascript")}


@dataclass
class Relay:
    """Records requests, and answers all of them alike."""

    node: str = "login0"
    lost: threading.Event = field(default_factory=threading.Event)
    asked: list[RelayRequest] = field(default_factory=list)
    error: str = ""

    def send(self, request: RelayRequest) -> RelayAnswer:
        self.asked.append(request)
        if self.error:
            raise UndeterminedError(self.error, path=self.node)
        return RelayAnswer(418, "application/json", b"{}")

    def why_lost(self) -> str:
        return "Connection to login0 closed by remote host."


@pytest.fixture
def relay() -> Relay:
    return Relay()


@pytest.fixture
def server(relay: Relay) -> Iterator[BoardServer]:
    with BoardServer(relay, PAGES) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: BoardServer, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.headers), answer.read()
    connection.close()
    return found


def below(server: BoardServer, path: str) -> str:
    return f"/{server.token}/{path}"


def test_page_is_served_below_the_token(server: BoardServer) -> None:
    status, headers, body = ask(server, urlsplit(server.addresses.page).path)
    assert (status, body) == (200, b"<p>boards</p>")
    assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    assert ask(server, below(server, "boards.js"))[2] == b"start()"
    assert ask(server, below(server, "boards.js"), "HEAD")[2] == b""


@pytest.mark.parametrize(
    "path",
    ["/", "/wrong/", "/wrong/prometheus/api/v1/query?query=up", "/%C3%A9/", "//", "/boards.js"],
    ids=["root", "wrong", "api", "bytes", "empty", "file"],
)
def test_other_users_get_nothing(server: BoardServer, relay: Relay, path: str) -> None:
    status, _, body = ask(server, path)
    assert status == 403 and server.token.encode() not in body and not relay.asked


def test_tokens_are_long_and_differ(relay: Relay) -> None:
    tokens = set()
    for _ in range(3):
        with BoardServer(relay, PAGES) as server:  # type: ignore[arg-type]
            tokens.add(server.token)
    assert len(tokens) == 3 and min(map(len, tokens)) >= 32


def test_server_listens_on_loopback_only(server: BoardServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("prometheus/api/v1/query?query=up%7B%7D", RelayRequest("prometheus", "/api/v1/query?query=up%7B%7D")),
        ("prometheus/metrics", RelayRequest("prometheus", "/metrics")),
        ("alertmanager/api/v2/alerts?active=true", RelayRequest("alertmanager", "/api/v2/alerts?active=true")),
    ],
    ids=["query", "metrics", "alerts"],
)
def test_reading_requests_are_forwarded(server: BoardServer, relay: Relay, path: str, request_: RelayRequest) -> None:
    status, headers, body = ask(server, below(server, path))
    assert (status, headers["Content-Type"], body) == (418, "application/json", b"{}") and relay.asked == [request_]


def test_query_is_forwarded_by_post(server: BoardServer, relay: Relay) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert ask(server, below(server, "prometheus/api/v1/query_range"), "POST", "query=up", **form)[0] == 418
    assert relay.asked == [RelayRequest("prometheus", "/api/v1/query_range", "POST", form["Content-Type"], "query=up")]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "prometheus/graph"),
        ("GET", "prometheus/api/v1/../../-/quit"),
        ("POST", "prometheus/api/v1/admin/tsdb/delete_series"),
        ("POST", "prometheus/-/reload"),
        ("POST", "alertmanager/api/v2/silences"),
        ("GET", "alertmanager/api/v1/alerts"),
    ],
    ids=["page", "dots", "delete", "reload", "silence", "other-api"],
)
def test_other_requests_are_refused(server: BoardServer, relay: Relay, method: str, path: str) -> None:
    assert ask(server, below(server, path), method, "x" if method == "POST" else None)[0] == 403 and relay.asked == []


@pytest.mark.parametrize(("method", "status"), [("DELETE", 501), ("PUT", 501), ("OPTIONS", 501)])
def test_other_methods_are_refused(server: BoardServer, relay: Relay, method: str, status: int) -> None:
    assert ask(server, below(server, "alertmanager/api/v2/silence/1"), method)[0] == status and relay.asked == []


def test_long_body_is_refused(server: BoardServer, relay: Relay) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), 5) as plain:
        head = f"POST {below(server, 'prometheus/api/v1/query')} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
        plain.sendall(head.encode())
        assert b" 413 " in plain.recv(100) and relay.asked == []


def test_unknown_page_is_not_found(server: BoardServer) -> None:
    assert ask(server, below(server, "../../etc/passwd"))[0] == 404


def test_reason_of_a_missing_answer_is_passed_on(server: BoardServer, relay: Relay) -> None:
    relay.error = "prometheus does not listen on the node"
    status, _, body = ask(server, below(server, "prometheus/api/v1/query?query=up"))
    assert status == 502 and body == b"login0: prometheus does not listen on the node\n"


def test_port_in_use_is_reported(server: BoardServer, relay: Relay) -> None:
    with pytest.raises(InputError, match=rf"cannot listen on 127.0.0.1:{server.server_port}: Address already in use"):
        BoardServer(relay, PAGES, server.server_port)  # type: ignore[arg-type]


def test_lost_tunnel_ends_the_server(relay: Relay) -> None:
    with BoardServer(relay, PAGES) as server:  # type: ignore[arg-type]
        threading.Timer(0.05, relay.lost.set).start()
        with pytest.raises(UndeterminedError, match="the tunnel is lost: Connection to login0 closed") as lost:
            server.serve()
    assert lost.value.exit_code == 3
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.server_port), 1)


def test_interrupt_closes_the_port(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(relay.lost, "wait", interrupt)
    with BoardServer(relay, PAGES) as server, pytest.raises(KeyboardInterrupt):  # type: ignore[arg-type]
        server.serve()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.server_port), 1)
