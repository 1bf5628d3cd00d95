"""Alertmanager itself, with the configuration that the role writes: which of the alerts of a fault replace the others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest
from support.monitored import render_alertmanager

ALERTMANAGER = shutil.which("prometheus-alertmanager")
pytestmark = pytest.mark.skipif(ALERTMANAGER is None, reason="Alertmanager is not installed (Debian: package prometheus-alertmanager)")

LOST_NODE = [
    ("TargetDown", "worker0", "node"),
    ("TargetDown", "worker1", "kubelet"),
    ("KubeNodeNotReady", "worker0", ""),
    ("KubeNodeNotReady", "worker1", ""),
]
LOST_API_SERVER = [
    ("KubernetesUnanswered", "login0", ""),
    ("TargetDown", "login0", "apiserver"),
    ("TargetDown", "worker0", "kubelet"),
    ("TargetDown", "worker1", "cadvisor"),
    ("TargetDown", "worker1", "node"),
]


@pytest.fixture(name="url", scope="module")
def fixture_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of an Alertmanager without receivers; end it after the last test."""
    folder = tmp_path_factory.mktemp("alertmanager")
    (folder / "alertmanager.yml").write_text(render_alertmanager({}, None))
    listen = ("--cluster.listen-address=", "--web.listen-address=127.0.0.1:0")
    command = [str(ALERTMANAGER), "--config.file=alertmanager.yml", "--storage.path=data", *listen]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = iter(process.stderr.readline, "")
        found = next((at for line in said if (at := re.search(r"Listening on.*address=(127\.0\.0\.1:\d+)", line))), None)
        assert found, "Alertmanager ended before it listened"
        yield f"http://{found[1]}"
        process.terminate()


def sent(url: str, stack: str, alerts: list[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Post the alerts of a stack and return those that Alertmanager does not inhibit."""
    labels = [{"stack": stack, "severity": "critical", "alertname": name, "instance": node, "job": job} for name, node, job in alerts]
    body = json.dumps([{"labels": {key: value for key, value in one.items() if value}} for one in labels]).encode()
    urllib.request.urlopen(urllib.request.Request(f"{url}/api/v2/alerts", body, {"Content-Type": "application/json"}), timeout=60).close()
    # Alertmanager decides what is inhibited when it groups an alert, a moment after it accepted it; group_wait is 5 s.
    deadline = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(f"{url}/api/v2/alerts?filter=stack={stack}", timeout=60) as answer:
            found = json.load(answer)
        if found and all(one["status"]["state"] != "unprocessed" for one in found):
            break
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    passed = [one["labels"] for one in found if not one["status"]["inhibitedBy"]]
    return {(one["alertname"], one["instance"], one.get("job", "")) for one in passed}


def test_lost_node_replaces_its_other_alerts_only(url: str) -> None:
    assert sent(url, "one", LOST_NODE) == {
        ("TargetDown", "worker0", "node"),
        ("TargetDown", "worker1", "kubelet"),
        ("KubeNodeNotReady", "worker1", ""),
    }


def test_lost_api_server_replaces_unread_kubelets_and_no_lost_node(url: str) -> None:
    assert sent(url, "two", LOST_API_SERVER) == {
        ("KubernetesUnanswered", "login0", ""),
        ("TargetDown", "login0", "apiserver"),
        ("TargetDown", "worker1", "node"),
    }


def test_stopped_kubelet_is_sent_while_the_api_server_answers(url: str) -> None:
    assert sent(url, "three", [("TargetDown", "worker0", "kubelet")]) == {("TargetDown", "worker0", "kubelet")}
