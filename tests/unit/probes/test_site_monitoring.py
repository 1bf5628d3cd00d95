"""Checks of monitoring by the site's Prometheus: in order, with faults, and without an answer."""

from __future__ import annotations

import contextlib
import doctest
import http.server
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support.monitored import declared_of

from rackwright.checks.cluster import test_site_monitoring as checks
from rackwright.checks.cluster.harness import tls_client
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes import site_monitoring as probes
from rackwright.drivers.certificates import KeyAndCertificate, create_authority, create_certificate
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.remote.programs import tcp_relay

NOW = datetime.now(UTC)
AUTHORITY = create_authority("stack", NOW)
STRANGER = create_authority("stranger", NOW)
CAPTURED = Path(__file__).parents[1] / "captured" / "monitoring-client-settings"
SITE: dict[str, Any] = {"client_names": ["prometheus"], "client_authority": None, "sources": ["192.0.2.10/32"]}
PLAN = {"external": SITE, "targets": [{"job": "node", "node": "worker0", "port": 9100}]}
NAMES = ("login0", "worker0", "worker1", "storage0")


def external(**declared: Any) -> Any:
    return declared_of(monitoring={"kind": "external", "sources": ["192.0.2.10/32"], **declared})


def said(check: Any, *given: Any) -> str:
    """Return `passed`, or what was found."""
    try:
        check(*given, Expect())
    except Mismatch as mismatch:
        return str(mismatch)
    return "passed"


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(probes).failed == 0


def settings(name: str) -> Any:
    return lambda _: probes.parse_client_settings((CAPTURED / name).read_text(encoding="utf-8"))


def test_accepted_clients_of_the_stack_pass() -> None:
    assert said(checks.test_accepted_clients_match_plan, settings("good.txt"), PLAN) == "passed"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        pytest.param({"client_names": ["other"]}, "prometheus", id="another-name"),
        pytest.param({"client_authority": STRANGER.certificate}, "authorities", id="another-authority"),
    ],
)
def test_other_clients_fail(changed: dict[str, Any], found: str) -> None:
    plan = {**PLAN, "external": {**SITE, **changed}}
    assert found in said(checks.test_accepted_clients_match_plan, settings("good.txt"), plan)


def test_authorities_of_the_site_are_compared() -> None:
    pem = (CAPTURED / "good-two-authorities.txt").read_text(encoding="utf-8").partition("---\n")[2]
    plan = {**PLAN, "external": {**SITE, "client_names": ["prometheus.example.org", "192.0.2.10"], "client_authority": pem}}
    assert said(checks.test_accepted_clients_match_plan, settings("good-two-authorities.txt"), plan) == "passed"


def test_exporter_without_demand_for_certificate_fails() -> None:
    text = (CAPTURED / "good.txt").read_text(encoding="utf-8").replace("RequireAndVerifyClientCert", "NoClientCert")
    found = lambda _: probes.parse_client_settings(text)  # noqa: E731
    assert "NoClientCert" in said(checks.test_accepted_clients_match_plan, found, PLAN)


@pytest.mark.parametrize(
    "text", ["", "---\n", (CAPTURED / "broken.txt").read_text(encoding="utf-8")], ids=["empty", "mark", "no-authority"]
)
def test_incomplete_settings_are_unreadable(text: str) -> None:
    with pytest.raises(ValueError):
        probes.parse_client_settings(text)


class Ruleset:
    """A packet filter that admits some addresses."""

    def __init__(self, *admitted: str) -> None:
        self.admitted = admitted

    def admits(self, packet: Any) -> bool:
        return packet.source in self.admitted and packet.port == 9100


@pytest.mark.parametrize(
    ("admitted", "verdict"),
    [(("192.0.2.10",), "passed"), ((), "192.0.2.10/32"), (("192.0.2.10", checks.STRANGER), "others")],
    ids=["declared", "nobody", "everybody"],
)
def test_firewall_admits_declared_sources_only(admitted: tuple[str, ...], verdict: str) -> None:
    node = SimpleNamespace(name="worker0", address="10.77.0.12")
    assert verdict in said(checks.test_firewall_admits_prometheus, node, PLAN, lambda _: Ruleset(*admitted))


@pytest.mark.parametrize(
    ("check", "answer", "verdict"),
    [
        pytest.param(checks.test_client_is_answered, "answers", "passed", id="answered"),
        pytest.param(checks.test_client_is_answered, "tlsv1 alert unknown ca", "unknown ca", id="refused"),
        pytest.param(checks.test_prometheus_reads_node, "up", "passed", id="up"),
        pytest.param(checks.test_prometheus_reads_node, "down", "down", id="down"),
        pytest.param(checks.test_prometheus_reads_node, "absent", "absent", id="absent"),
        pytest.param(checks.test_rules_are_loaded, "none", "passed", id="rules"),
        pytest.param(checks.test_rules_are_loaded, "GpuXid: absent", "GpuXid", id="rule-absent"),
        pytest.param(checks.test_no_alert_fires, "none", "passed", id="quiet"),
        pytest.param(checks.test_no_alert_fires, "NodeRebooted, Watchdog", "passed", id="past-event"),
        pytest.param(checks.test_no_alert_fires, "GpuXid, Watchdog", "GpuXid", id="alert"),
    ],
)
def test_answer_gives_verdict(check: Any, answer: str, verdict: str) -> None:
    assert verdict in said(check, lambda _: answer)


def rule(name: str, health: str = "ok", stack: str = "lab") -> dict[str, Any]:
    return {"name": name, "health": health, "labels": {"stack": stack}}


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ([rule("A"), rule("B")], "none"),
        ([rule("A")], "B: absent"),
        ([rule("A"), rule("B", stack="other")], "B: absent"),
        ([rule("A", "err"), rule("B", "unknown")], "A: err, B: unknown"),
    ],
    ids=["all", "one", "another-stack", "broken"],
)
def test_rules_of_the_stack_are_compared(rules: list[dict[str, Any]], verdict: str) -> None:
    assert probes.rules_of({"groups": [{"rules": rules}]}, "lab", ["A", "B"]) == verdict


class Site(http.server.BaseHTTPRequestHandler):
    """A Prometheus that answers from a table, to holders of a token only."""

    answers: dict[str, Any]

    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == "Bearer secret"
        answer = self.answers.get(self.path.partition("?")[0])
        self.send_response(401 if not allowed else 200 if answer is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "success", "data": answer}).encode())

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Yield the declaration of a Prometheus that runs on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "token").write_text("secret\n")
    yield {"url": f"http://127.0.0.1:{server.server_port}/base", "token_file": str(tmp_path / "token")}
    server.shutdown()


def test_prometheus_of_the_site_is_queried_with_the_token(site: dict[str, Any]) -> None:
    up = {"result": [{"metric": {"instance": "worker0"}, "value": [0, "1"]}, {"metric": {"instance": "login0"}, "value": [0, "0"]}]}
    alert = {"labels": {"alertname": "GpuXid", "stack": "small", "instance": "worker0"}, "state": "firing"}
    strange = {"labels": {"alertname": "GpuXid", "stack": "other", "instance": "login0"}, "state": "firing"}
    Site.answers = {
        "/base/api/v1/query": up,
        "/base/api/v1/rules": {"groups": []},
        "/base/api/v1/alerts": {"alerts": [alert, strange, {**alert, "state": "pending"}]},
    }
    declared = external(prometheus=site)
    assert probes.probe_targets(declared, NAMES) == {"login0": "down", "worker0": "up", "worker1": "absent", "storage0": "absent"}
    assert "TargetDown: absent" in probes.probe_rules(declared, ["login0"])["login0"]
    assert probes.probe_alerts(declared, NAMES) == {"login0": "none", "worker0": "GpuXid", "worker1": "none", "storage0": "none"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({"token_file": None}, "status 401", id="no-token"),
        pytest.param({"token_file": "/nowhere/token"}, "/nowhere/token: No such file", id="token-missing"),
        pytest.param({"url": "http://127.0.0.1:1"}, "Connection refused", id="not-running"),
    ],
)
def test_prometheus_without_answer_is_undetermined(site: dict[str, Any], changed: dict[str, Any], reason: str) -> None:
    Site.answers = {}
    with pytest.raises(UndeterminedError, match=reason):
        probes.probe_targets(external(prometheus={**site, **changed}), NAMES)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs an exporter behind a stand-in of ssh, which runs commands on this machine."""
    stand_in = tmp_path / "bin" / "ssh"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\nshift 3\nexec sh -c "$1"\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tls_client, "_PATIENCE", 3.0)

    def run(client: KeyAndCertificate, accepts: KeyAndCertificate, name: str = "10.77.0.16", body: bytes = b"node_load1 1\n") -> Any:
        secrets = {"authority": AUTHORITY.certificate, "client": {"certificate": client.certificate, "private_key": client.private_key}}
        paths.secrets("small").parent.mkdir(parents=True, exist_ok=True)
        paths.secrets("small").write_text(yaml.safe_dump({"secrets": {"monitoring": secrets}}))
        own = create_certificate("login0", "server", ["login0", name], AUTHORITY, NOW)
        (tmp_path / "own.pem").write_text(own.certificate + own.private_key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=accepts.certificate)
        context.load_cert_chain(tmp_path / "own.pem")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=serve, args=(listener, context, body), daemon=True).start()
            declared = external()
            targets = [{**one, "port": listener.getsockname()[1]} for one in declared.monitoring["targets"]]
            object.__setattr__(declared, "monitoring", {**declared.monitoring, "targets": targets})
            return probes.probe_with_client(declared, ["login0"])["login0"]

    return run


def serve(listener: socket.socket, context: ssl.SSLContext, body: bytes) -> None:
    with contextlib.suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as connection:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)
        connection.unwrap()


def client(authority: KeyAndCertificate) -> KeyAndCertificate:
    return create_certificate("prometheus", "client", ["prometheus"], authority, NOW)


def test_exporter_answers_the_client_of_the_stack(nodes: Any) -> None:
    assert nodes(client(AUTHORITY), AUTHORITY) == probes.ANSWERS


@pytest.mark.parametrize(
    ("of", "accepts", "name", "reason"),
    [
        pytest.param(STRANGER, AUTHORITY, "10.77.0.16", "unknown ca", id="client-refused"),
        pytest.param(AUTHORITY, STRANGER, "10.77.0.16", "unknown ca", id="exporter-with-another-authority"),
        pytest.param(AUTHORITY, AUTHORITY, "10.77.0.99", "IP address mismatch", id="certificate-of-another-address"),
    ],
)
def test_exporter_that_prometheus_cannot_read_fails(nodes: Any, of: KeyAndCertificate, accepts: Any, name: str, reason: str) -> None:
    assert reason in nodes(client(of), accepts, name)


def test_exporter_without_metrics_of_the_node_fails(nodes: Any) -> None:
    assert "without a metric" in nodes(client(AUTHORITY), AUTHORITY, body=b"<html>")


def test_exporter_that_does_not_run_is_undetermined(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "request_through_node", lambda *_: (_ for _ in ()).throw(ssl.SSLEOFError()))
    assert isinstance(nodes(client(AUTHORITY), AUTHORITY), UnreadableValue)


def test_client_key_is_no_word_of_a_command(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[Any] = []
    started = tls_client.subprocess.Popen
    monkeypatch.setattr(tls_client.subprocess, "Popen", lambda command, **more: words.extend(command) or started(command, **more))
    own = client(AUTHORITY)
    nodes(own, AUTHORITY)
    assert words and not [word for word in words if own.private_key[30:60] in word]


def test_missing_secrets_are_undetermined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    with pytest.raises(UndeterminedError, match="client certificate cannot be read"):
        probes.probe_with_client(external(), ["login0"])


def test_relay_reports_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SystemExit, match="Connection refused"):
        tcp_relay.main({"port": port, "patience": 1.0})
