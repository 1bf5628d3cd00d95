"""The program that queries Prometheus and Alertmanager: it waits for the first readings only, and reports what ends it."""

from __future__ import annotations

import contextlib
import doctest
import socket
import ssl
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from rackwright.drivers.certificates import create_authority, create_certificate
from rackwright.remote.programs import monitoring_api as api


class Daemon:
    """Answers in order; the last one is repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def get(self, path: str) -> Any:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def targets(*health: str) -> Any:
    return {"data": {"activeTargets": [{"labels": {"job": "node", "instance": f"n{i}"}, "health": one} for i, one in enumerate(health)]}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "PAUSE", 0)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(api).failed == 0


def test_first_reading_is_awaited() -> None:
    daemon = Daemon(OSError("/api/v1/targets: status 503: Service Unavailable"), targets(), targets("up", "unknown"), targets("up", "down"))
    assert [row[2] for row in api.targets(daemon, {"settle_s": 5})] == ["up", "down"]
    assert daemon.asked == 4


def test_node_that_was_started_is_awaited() -> None:
    daemon = Daemon(targets("up", "down"), targets("up", "up"))
    assert [row[2] for row in api.targets(daemon, {"settle_s": 5, "nodes_start": True})] == ["up", "up"]
    assert [row[2] for row in api.targets(Daemon(targets("down")), {"settle_s": -1, "nodes_start": True})] == ["down"]


def test_first_rules_are_awaited() -> None:
    """A daemon that has just started serves an empty list before it has read its files."""
    row = {"type": "alerting", "name": "TargetDown", "health": "ok", "lastEvaluation": "2026-11-27T13:06:21.5Z"}
    daemon = Daemon({"data": {"groups": []}}, {"data": {"groups": [{"rules": [row]}]}})
    assert [rule[1] for rule in api.rules(daemon, {"settle_s": 5})] == ["TargetDown"]


def test_reading_that_does_not_come_is_reported() -> None:
    assert [row[2] for row in api.targets(Daemon(targets("unknown")), {"settle_s": -1})] == ["unknown"]


@pytest.mark.parametrize(("error", "asked"), [(ConnectionRefusedError(111, "Connection refused"), 1), (OSError("status 500"), 1)])
def test_daemon_without_answer_is_not_awaited(error: Exception, asked: int) -> None:
    daemon = Daemon(error)
    with pytest.raises(OSError):
        api.targets(daemon, {"settle_s": 5 if isinstance(error, ConnectionRefusedError) else -1})
    assert daemon.asked == asked


def test_only_firing_alerts_are_listed() -> None:
    one = {"labels": {"alertname": "A", "instance": "n0", "severity": "critical"}, "annotations": {"summary": "a"}}
    bare = {"labels": {"alertname": "B"}, "annotations": {}, "state": "firing"}
    alerts = {"data": {"alerts": [{**one, "state": "pending"}, {**one, "state": "firing"}, bare]}}
    assert api.firing(Daemon(alerts), {}) == [["A", "n0", "critical", "a"], ["B", "", "", ""]]


def test_rule_that_was_never_evaluated_is_old() -> None:
    assert api.age("0001-01-01T00:00:00Z", 1_795_000_000.0) > 1e9


def test_closed_port_is_no_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    context = ssl.create_default_context()
    assert api.without_certificate("127.0.0.1", port, context) == api.NOT_LISTENING
    with pytest.raises(SystemExit, match="node: connection refused"):
        api.main({"topic": "access", "host": "127.0.0.1", "ports": {"node": port}})
    assert api.main({"topic": "access", "host": "127.0.0.1", "ports": {"prometheus": port}}) == {"prometheus": api.NOT_LISTENING}


@pytest.mark.parametrize(
    ("demands", "said"),
    [(ssl.CERT_REQUIRED, "certificate required"), (ssl.CERT_NONE, f"{api.ANSWERED}: HTTP/1.0 200 OK")],
    ids=["refuses", "serves"],
)
def test_port_is_asked_without_certificate(tmp_path: Any, demands: ssl.VerifyMode, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = create_authority("test", datetime.now(UTC))
    own = create_certificate("localhost", "server", ["localhost"], authority, datetime.now(UTC))
    (tmp_path / "own.pem").write_text(own.certificate + own.private_key)
    accepts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepts.verify_mode = demands
    accepts.load_verify_locations(cadata=authority.certificate)
    accepts.load_cert_chain(tmp_path / "own.pem")
    monkeypatch.setattr(api, "PATIENCE", 2)

    def serve() -> None:
        with contextlib.suppress(OSError), accepts.wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        found = api.main({"topic": "access", "host": "127.0.0.1", "ports": {"node": listener.getsockname()[1]}})
        thread.join()
    assert said in found["node"]


def test_missing_certificate_ends_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(api, "FOLDER", str(tmp_path))
    with pytest.raises(SystemExit, match="prometheus: "):
        api.main({"topic": "targets", "host": "login0", "ports": {"prometheus": 9090}, "settle_s": 0})


def test_alerts_of_alertmanager_have_labels_and_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.time, "time", lambda: 1795784783.5)
    one = {"labels": {"alertname": "A", "instance": "n0"}, "annotations": {}, "startsAt": "2026-11-27T13:06:21.500Z"}
    assert api.alerts(Daemon([one]), {}) == [{"labels": one["labels"], "summary": "", "age_s": 2.0}]
