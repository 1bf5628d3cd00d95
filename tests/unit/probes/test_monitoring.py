"""Checks of monitoring on what its daemons report: in order, with faults, and without an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from rackwright.checks.cluster import test_monitoring as monitoring_checks
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes import monitoring as probes
from rackwright.checks.cluster.probes.units import Unit
from rackwright.errors import UndeterminedError

PLAN: dict[str, Any] = {
    "server": "login0",
    "interval_s": 15,
    "nodes": [{"name": "login0"}, {"name": "worker0"}],
    "targets": [
        {"job": "node", "node": "login0", "port": 9100},
        {"job": "node", "node": "worker0", "port": 9100},
        {"job": "prometheus", "node": "login0", "port": 9090},
    ],
    "rules": {
        "groups": [
            {"name": "plan", "rules": [{"record": "rackwright_plan_target"}]},
            {"name": "monitoring", "rules": [{"alert": "TargetDown"}, {"alert": "Watchdog"}]},
        ]
    },
}
TARGETS = [["node", "login0", "up", ""], ["node", "worker0", "up", ""], ["prometheus", "login0", "up", ""]]
RULES = [
    ["recording", "rackwright_plan_target", "ok", "", 3.0],
    ["alerting", "TargetDown", "ok", "", 4.0],
    ["alerting", "Watchdog", "ok", "", 4.0],
]
WATCHDOG = ["Watchdog", "", "none", "Alerting works"]
REFUSED = {"node": "tlsv13 alert certificate required", "prometheus": "tlsv13 alert certificate required"}
KEYS = "640 root:prometheus /etc/rackwright/node_exporter/server.key\n640 root:prometheus /etc/prometheus/tls/client.key\n"


def verdict(check: str, answer: Any) -> str:
    """Return `passed`, or what was found."""
    function = getattr(monitoring_checks, f"test_{check}")
    given = {
        "ask": lambda probe: probe.parse(answer if isinstance(answer, str) else json.dumps(answer)),
        "monitoring": PLAN,
        "expect": Expect(),
        "limit": {"rules_are_evaluated": 3, "watchdog_reaches_alertmanager": 120}.get(check),
    }
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    try:
        function(**{name: given[name] for name in names})
    except Mismatch as mismatch:
        return str(mismatch)
    return "passed"


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        ("targets_match_plan", TARGETS),
        ("targets_are_up", TARGETS),
        ("rules_match_plan", RULES),
        ("rules_are_evaluated", RULES),
        ("watchdog_reaches_alertmanager", [["Watchdog", 119.0]]),
        ("no_alert_fires", [WATCHDOG]),
        ("no_alert_fires", [WATCHDOG, ["NodeRebooted", "worker0", "warning", "worker0 was rebooted"]]),
        ("no_alert_fires", [WATCHDOG, ["VerifyFailed", "login0", "critical", "results that are failed"]]),
        ("no_alert_fires", [WATCHDOG, ["FabricCableMissing", "worker9", "critical", "no link to a node that is out"]]),
        ("requests_without_certificate_refused", REFUSED),
        ("requests_without_certificate_refused", {"node": "certificate required", "prometheus": "connection refused"}),
        ("keys_are_private", KEYS),
    ],
)
def test_monitoring_in_order_passes(check: str, answer: Any) -> None:
    assert verdict(check, answer) == "passed"


@each_row(
    ("check", "answer", "found"),
    [
        pytest.param("targets_match_plan", TARGETS[:1], "login0", id="target-missing"),
        pytest.param("targets_match_plan", [*TARGETS, ["node", "stranger", "up", ""]], "stranger", id="target-unplanned"),
        pytest.param("targets_are_up", [["node", "worker0", "down", "connection refused"]], "connection refused", id="target-down"),
        pytest.param("targets_are_up", [["node", "worker0", "down", ""]], "down", id="target-down-without-reason"),
        pytest.param("targets_are_up", [["node", "worker0", "unknown", ""]], "unknown", id="target-never-read"),
        pytest.param("rules_match_plan", RULES[:2], "TargetDown", id="rule-missing"),
        pytest.param("rules_are_evaluated", [["alerting", "TargetDown", "err", "many-to-many", 1.0]], "many-to-many", id="rule-fails"),
        pytest.param("rules_are_evaluated", [["alerting", "TargetDown", "ok", "", 46.0]], "46 s ago", id="rule-late"),
        pytest.param("rules_are_evaluated", [*RULES, ["alerting", "TargetDown", "ok", "", 99.0]], "99 s ago", id="one-of-two-late"),
        pytest.param("watchdog_reaches_alertmanager", [["Watchdog", 121.0]], "121 s old", id="watchdog-old"),
        pytest.param("watchdog_reaches_alertmanager", [["TargetDown", 1.0]], "absent", id="watchdog-absent"),
        pytest.param("watchdog_reaches_alertmanager", [], "absent", id="nothing-received"),
        pytest.param("no_alert_fires", [WATCHDOG, ["GpuXid", "worker0", "critical", "XID 79"]], "GpuXid on worker0", id="alert"),
        pytest.param("no_alert_fires", [["RuleBroken", "", "critical", "broken"]], "RuleBroken", id="alert-without-instance"),
        pytest.param("requests_without_certificate_refused", {"node": "answered with status 200"}, "status 200", id="port-open"),
        pytest.param("requests_without_certificate_refused", {"node": "wrong version number"}, "wrong version", id="port-without-tls"),
        pytest.param("keys_are_private", KEYS.replace("640", "644", 1), "644", id="key-readable"),
        pytest.param("keys_are_private", KEYS.replace("root:prometheus", "root:users", 1), "root:users", id="key-of-another-group"),
    ],
)
def test_fault_of_monitoring_fails(check: str, answer: Any, found: str) -> None:
    assert found in verdict(check, answer)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        pytest.param("targets_match_plan", [], id="no-target"),
        pytest.param("targets_are_up", [["node", "worker0"]], id="row-too-short"),
        pytest.param("rules_are_evaluated", [["alerting", "TargetDown", "ok", "", None]], id="age-missing"),
        pytest.param("no_alert_fires", {"error": "x"}, id="no-list"),
        pytest.param("requests_without_certificate_refused", {}, id="no-port"),
        pytest.param("keys_are_private", "", id="no-key"),
    ],
)
def test_unreadable_answer_is_refused(check: str, answer: Any) -> None:
    with pytest.raises(ValueError):
        verdict(check, answer)


def test_daemons_are_reported_by_name() -> None:
    states = {"prometheus.service": Unit("active", True), "prometheus-alertmanager.service": Unit("failed", True)}
    with pytest.raises(Mismatch, match="prometheus-alertmanager"):
        monitoring_checks.test_daemons_run(lambda _: states, Expect())
    with pytest.raises(Mismatch):
        monitoring_checks.test_exporter_runs(lambda _: {"prometheus-node-exporter.service": Unit("not-found", False)}, Expect())


def test_probes_are_read_through_their_registration() -> None:
    from rackwright.checks.cluster.harness.probe import CommandOutput

    with pytest.raises(UndeterminedError, match="Connection refused"):
        probes.TARGETS.read(CommandOutput(rc=1, err="prometheus: [Errno 111] Connection refused"))


def test_captured_answers_cover_every_probe() -> None:
    folder = Path(__file__).parents[1] / "captured"
    assert {path.name for path in folder.glob("monitoring-*")} == {
        f"monitoring-{name}" for name in ("targets", "rules", "firing", "received", "access", "keys", "client-settings")
    }
