"""Requests through a session with the monitoring node: the program of the node runs here, against daemons that demand a certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import fake_monitoring
from support.fake_monitoring import Daemon

from rackwright.drivers.monitoring_relay import MonitoringRelay, RelayRequest
from rackwright.errors import UndeterminedError

ANSWERS: dict[str, Any] = {
    "/api/v1/query": (200, {"status": "success"}),
    "/api/v1/bad": (400, {"status": "error", "error": "parse error"}),
    "/long": (200, b"x" * 3_000_000),
}


@pytest.fixture
def prometheus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    fake_monitoring.certificates(tmp_path)
    fake_monitoring.ssh_runs_here(monkeypatch, tmp_path)
    with fake_monitoring.daemon(tmp_path, dict(ANSWERS)) as running:
        yield running


def relay_to(daemon: Daemon, alertmanager: int = 1) -> MonitoringRelay:
    return MonitoringRelay("lab", "localhost", {"prometheus": daemon.port, "alertmanager": alertmanager}, sudo=False)


def test_answers_come_back_with_status_and_type(prometheus: Daemon) -> None:
    with relay_to(prometheus) as relay:
        good = relay.send(RelayRequest("prometheus", "/api/v1/query?query=up"))
        bad = relay.send(RelayRequest("prometheus", "/api/v1/bad"))
        posted = relay.send(RelayRequest("prometheus", "/api/v1/query", "POST", "application/x-www-form-urlencoded", "query=1%2B1"))
    assert (good.status, good.type, json.loads(good.body)) == (200, "application/json", {"status": "success"})
    assert bad.status == 400 and json.loads(bad.body)["error"] == "parse error" and posted.status == 200
    assert prometheus.asked[0] == ("GET", "/api/v1/query?query=up", "") and prometheus.asked[-1] == ("POST", "/api/v1/query", "query=1%2B1")


def test_requests_of_several_threads_get_their_own_answers(prometheus: Daemon) -> None:
    paths = [f"/p{number}" for number in range(30)]
    prometheus.answers |= {path: (200, {"path": path}) for path in paths}
    with relay_to(prometheus) as relay, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda path: json.loads(relay.send(RelayRequest("prometheus", path)).body)["path"], paths))
    assert found == paths


def test_long_answer_arrives_whole(prometheus: Daemon) -> None:
    with relay_to(prometheus) as relay:
        assert relay.send(RelayRequest("prometheus", "/long")).body == b"x" * 3_000_000


def test_daemon_that_does_not_listen_is_reported(prometheus: Daemon) -> None:
    with relay_to(prometheus) as relay:
        with pytest.raises(UndeterminedError, match="alertmanager does not listen on the node"):
            relay.send(RelayRequest("alertmanager", "/api/v2/alerts"))
        assert relay.send(RelayRequest("prometheus", "/api/v1/query")).status == 200


def test_session_that_ends_is_lost_with_the_reason(prometheus: Daemon) -> None:
    with relay_to(prometheus) as relay:
        relay._child.kill()
        assert relay.lost.wait(5)
        assert relay.why_lost() == "ssh ended with status -9"
        with pytest.raises(UndeterminedError, match="the tunnel is lost: ssh ended with status -9"):
            relay.send(RelayRequest("prometheus", "/api/v1/query"))


def test_node_without_certificate_is_reported(prometheus: Daemon, tmp_path: Path) -> None:
    (tmp_path / "client.key").unlink()
    with pytest.raises(UndeterminedError, match="the client's certificate cannot be read: No such file or directory"), relay_to(prometheus):
        pass


def test_refused_session_is_reported(prometheus: Daemon, tmp_path: Path) -> None:
    (tmp_path / "bin" / "ssh").write_text("#!/bin/sh\necho 'Connection refused' >&2\nexit 255\n")
    with pytest.raises(UndeterminedError, match="cannot ask its Prometheus: Connection refused"), relay_to(prometheus):
        pass


def test_no_process_and_no_key_is_left(prometheus: Daemon, tmp_path: Path) -> None:
    with relay_to(prometheus) as relay:
        child = relay._child
    assert child.poll() is not None
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
