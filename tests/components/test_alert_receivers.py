"""Alertmanager's configuration: where each alert goes, and that the tool of Alertmanager accepts it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.monitored import render_alertmanager

from rackwright.yaml_loader import load_yaml

AMTOOL = shutil.which("amtool")
RECEIVERS: dict[str, dict[str, Any]] = {
    "hook": {"kind": "webhook", "url_file": "~/hook", "severity": "critical"},
    "chat": {"kind": "slack", "url_file": "~/slack", "channel": "#cluster"},
    "pager": {"kind": "pagerduty", "key_file": "~/key", "severity": "critical"},
    "mail": {
        "kind": "email",
        "to": ["ops@example.org", "night@example.org"],
        "sender": "lab@example.org",
        "smarthost": "mail.example.org:587",
        "username": 'lab"x',
        "password_file": "~/password",
    },
    "relay": {"kind": "email", "to": ["ops@example.org"], "sender": "lab@example.org", "smarthost": "localhost:25", "require_tls": False},
}
DEADMAN = {"url_file": "~/deadman", "interval": "2m"}
CASES = [
    pytest.param({}, None, id="no-receiver"),
    pytest.param({}, DEADMAN, id="deadman-only"),
    pytest.param(RECEIVERS, DEADMAN, id="every-kind"),
    *(pytest.param({name: one}, None, id=name) for name, one in RECEIVERS.items()),
]


def routes(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["receiver"]: one for one in found["route"]["routes"]}


def test_watchdog_is_sent_to_deadman_switch_only() -> None:
    found = load_yaml(render_alertmanager(RECEIVERS, DEADMAN))
    first = found["route"]["routes"][0]
    assert (first["receiver"], first["matchers"], "continue" in first) == ("_deadman", ['alertname="Watchdog"'], False)
    assert (first["group_wait"], first["group_interval"]) == ("0s", "120s")
    (config,) = next(one["webhook_configs"] for one in found["receivers"] if one["name"] == "_deadman")
    assert config == {"url_file": "/etc/prometheus/alertmanager/_deadman.secret", "send_resolved": False}


def test_deadman_message_is_repeated_at_each_interval() -> None:
    """Each message is sent some time after its interval began: a repeat interval of the same length leaves out every second one."""
    first = load_yaml(render_alertmanager({}, DEADMAN))["route"]["routes"][0]
    assert int(first["repeat_interval"][:-1]) < int(first["group_interval"][:-1]) == 120


def test_alerts_go_to_every_receiver_of_their_severity() -> None:
    found = load_yaml(render_alertmanager(RECEIVERS, None))
    assert found["route"]["receiver"] == "_none"
    assert [one["receiver"] for one in found["route"]["routes"]] == ["_none", *RECEIVERS]
    for name, declared in RECEIVERS.items():
        least = 'severity="critical"' if declared.get("severity") == "critical" else 'severity=~"critical|warning"'
        assert routes(found)[name] == {"receiver": name, "matchers": [least], "continue": True}


def test_receivers_read_their_secrets_from_files() -> None:
    found = {one["name"]: one for one in load_yaml(render_alertmanager(RECEIVERS, DEADMAN))["receivers"]}
    folder = "/etc/prometheus/alertmanager"
    assert found["hook"]["webhook_configs"] == [{"url_file": f"{folder}/hook.secret", "send_resolved": True}]
    assert found["chat"]["slack_configs"][0] | {"title": "", "text": ""} == {
        "api_url_file": f"{folder}/chat.secret",
        "channel": "#cluster",
        "send_resolved": True,
        "title": "",
        "text": "",
    }
    assert found["pager"]["pagerduty_configs"][0]["routing_key_file"] == f"{folder}/pager.secret"
    (mail,) = found["mail"]["email_configs"]
    assert (mail["to"], mail["auth_username"], mail["auth_password_file"], mail["require_tls"]) == (
        "ops@example.org, night@example.org",
        'lab"x',
        f"{folder}/mail.secret",
        True,
    )
    assert found["relay"]["email_configs"] == [
        {"to": "ops@example.org", "from": "lab@example.org", "smarthost": "localhost:25", "require_tls": False, "send_resolved": True}
    ]


def test_lost_node_sends_one_alert() -> None:
    rule = load_yaml(render_alertmanager({}, None))["inhibit_rules"][0]
    assert rule["source_matchers"] == ['alertname="TargetDown"', 'job="node"']
    assert (rule["target_matchers"], rule["equal"]) == (['alertname!="TargetDown"'], ["instance"])


def test_lost_api_server_replaces_alerts_about_every_kubelet() -> None:
    rule = load_yaml(render_alertmanager({}, None))["inhibit_rules"][1]
    assert rule["source_matchers"] == ['alertname="KubernetesUnanswered"']
    assert (rule["target_matchers"], rule["equal"]) == (['alertname="TargetDown"', 'job=~"kubelet|cadvisor"'], ["stack"])


@pytest.mark.skipif(AMTOOL is None, reason="amtool is not installed (Debian: package prometheus-alertmanager)")
@pytest.mark.parametrize(("receivers", "deadman"), CASES)
def test_amtool_accepts_configuration(tmp_path: Path, receivers: dict[str, Any], deadman: dict[str, Any] | None) -> None:
    (tmp_path / "alertmanager.yml").write_text(render_alertmanager(receivers, deadman))
    done = subprocess.run([str(AMTOOL), "check-config", "alertmanager.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
