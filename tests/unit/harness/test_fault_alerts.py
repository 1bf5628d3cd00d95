"""The column of alerts in the tables of faults, against the catalogue of alerts."""

from __future__ import annotations

from pathlib import Path

from faults.fault_table import faults
from faults.test_drift import FAULTS

from rackwright.catalog.alerts import alerts
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[3]


def named() -> dict[str, set[str]]:
    """Every alert that a fault names -> the faults."""
    found: dict[str, set[str]] = {}
    for key, row in [*faults().items(), *FAULTS.items()]:
        for alert in row.alerts:
            found.setdefault(alert, set()).add(key)
    return found


def test_alerts_of_faults_exist() -> None:
    assert {name: keys for name, keys in named().items() if name not in alerts()} == {}


def test_every_alert_has_a_fault_or_a_rule_test() -> None:
    rows = load_yaml((ROOT / "tests" / "components" / "alert_rule_tests.yml").read_text(encoding="utf-8"))
    fired = {name for row in rows for name, found in row["fires"].items() if found}
    assert set(alerts()) - fired - set(named()) == set()


def test_lost_node_and_stopped_daemon_name_their_alerts() -> None:
    """Those that operators ask for first."""
    assert {"resources.node_is_stopped", "monitoring.exporter_runs"} <= named()["TargetDown"]
    assert "scheduler.slurmd_is_stopped" in named()["SlurmNodeNotResponding"]
    assert "gpu.no_xid_errors" in named()["GpuXid"] and "fabric.ports_are_active" in named()["FabricCableMissing"]


def test_faults_that_no_alert_can_see_name_none() -> None:
    """A suspended Prometheus sends nothing: only the dead man's switch and `rackwright drift` report it."""
    assert FAULTS["monitoring.prometheus_is_suspended"].alerts == ()
