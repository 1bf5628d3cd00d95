"""Rules of Prometheus from the plan and the table of alerts: which are there, and what they read."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kept_series import is_kept
from support.monitored import monitored
from support.results import published
from support.rows import each_row

from rackwright import layout
from rackwright.catalog.alerts import AlertSeverity, Part, alerts
from rackwright.inventory.alert_rules import PLAN_GROUP, parts_of, rule_groups
from rackwright.plan import Plan
from rackwright.plan.fabric.wiring import wiring
from rackwright.report.jobs.suspicion import Kind
from reference.alerts import page

ROOT = Path(__file__).parents[3]
COLLECTORS = ROOT / "roles" / "metrics_collectors" / "files"
WORDS = frozenset(
    (
        *(
            "abs",
            "absent",
            "and",
            "by",
            "changes",
            "delta",
            "max",
            "floor",
            "group_left",
            "group_right",
            "histogram_quantile",
            "ignoring",
            "increase",
        ),
        *("label_replace", "last_over_time", "max_over_time", "min", "min_over_time", "on", "or", "quantile", "rate", "sum", "time"),
        *("unless", "vector"),
    )
)
"""Words of PromQL in the expressions."""
BUILT_IN = frozenset({"up", "scrape_duration_seconds"})


def groups(plan: Plan) -> list[dict[str, Any]]:
    assert plan.monitoring is not None
    found: list[dict[str, Any]] = rule_groups(plan, plan.monitoring)["groups"]
    return found


def names(plan: Plan) -> set[str]:
    return {rule["alert"] for group in groups(plan) for rule in group["rules"] if "alert" in rule}


def test_lab_has_the_rules_of_its_parts() -> None:
    assert parts_of(monitored()) == {
        *(Part.PROMETHEUS, Part.SLURM, Part.GPUS, Part.ACCOUNTING, Part.STORAGE, Part.FABRIC, Part.INFINIBAND),
    }
    left_out = {Part.OWN_KERNEL, Part.REMOTE_WRITE, Part.KUBERNETES}
    assert names(monitored()) == {rule.name for rule in alerts().values() if not rule.needs & left_out}


@pytest.mark.parametrize(
    ("changed", "part", "left_out"),
    [
        pytest.param({"storage": {}}, Part.STORAGE, "SharedFsMissing", id="no-storage"),
        pytest.param({"fabric": None}, Part.INFINIBAND, "FabricCableMissing", id="no-fabric"),
        pytest.param({"groups": {"login": {"count": 1, "roles": ["login", "controller"]}}}, Part.GPUS, "GpuMissing", id="no-gpus"),
    ],
)
def test_rules_without_their_part_are_left_out(changed: dict[str, Any], part: Part, left_out: str) -> None:
    changed = {"storage": {}, "fabric": None, **changed} if part is Part.GPUS else changed
    plan = monitored(**changed)
    assert part not in parts_of(plan)
    assert left_out not in names(plan) and "TargetDown" in names(plan)


def test_power_saving_excuses_nodes_that_are_stopped() -> None:
    plan = monitored(scheduler={"kind": "slurm", "power_saving": {"suspend_time": "10m"}})
    assert Part.POWER_SAVING in parts_of(plan)
    written = {rule.get("alert") or rule["record"]: rule["expr"] for group in groups(plan) for rule in group["rules"]}
    usual = {rule.get("alert") or rule["record"]: rule["expr"] for group in groups(monitored()) for rule in group["rules"]}
    assert set(written) - set(usual) == {"rackwright_node_suspended"}
    changed = {name for name, expression in usual.items() if written[name] != expression}
    assert changed == {"TargetDown", "SlurmNodeNotResponding", "FabricCableMissing"}
    assert all("rackwright_node_suspended" in written[name] for name in changed)


def test_kubernetes_has_its_rules_and_none_of_slurm() -> None:
    plan = monitored(
        scheduler={"kind": "kubernetes"}, groups={"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 1}}
    )
    assert {Part.KUBERNETES, Part.SLURM} & parts_of(plan) == {Part.KUBERNETES}
    assert {"KubeNodeNotReady", "EtcdNoLeader", "TargetDown"} <= names(plan)
    assert not {name for name in names(plan) if name.startswith("Slurm")} and "EtcdDiskSlow" not in names(plan)


def test_every_target_and_collector_of_the_plan_is_recorded() -> None:
    plan = monitored()
    assert plan.monitoring is not None
    (recorded,) = [group["rules"] for group in groups(plan) if group["name"] == PLAN_GROUP]
    assert groups(plan)[0]["name"] == PLAN_GROUP
    targets = {(rule["labels"]["job"], rule["labels"]["instance"]) for rule in recorded if rule["record"] == "rackwright_plan_target"}
    assert targets == {(one.job, one.node) for one in plan.monitoring.targets}
    collectors = {
        (rule["labels"]["instance"], rule["labels"]["collector"]) for rule in recorded if rule["record"] == "rackwright_plan_collector"
    }
    assert collectors == {(node.name, subject) for node in plan.monitoring.nodes for subject in node.collectors}


@each_row("rule", alerts().values(), ids=lambda rule: rule.name)
def test_rule_is_complete(rule: Any) -> None:
    assert re.fullmatch(r"\d+[smh]", rule.hold), rule.hold
    assert rule.source.endswith("."), "a threshold has a source, as a sentence"
    assert not rule.summary.endswith(".") and not rule.remedy.endswith(".")
    assert rule.severity is not AlertSeverity.NONE or rule.name == "Watchdog"
    assert (ROOT / rule.runbook.partition("#")[0]).is_file()
    assert f"\n### {rule.name}\n" in rules_page()
    assert rule.expression.count("(") == rule.expression.count(")") and rule.expression.count("{") == rule.expression.count("}")


@functools.cache
def rules_page() -> str:
    """The page of the alerts, written once for all rules."""
    return page()


@functools.cache
def written_metrics() -> frozenset[str]:
    """Every metric that a collector names."""
    words: set[str] = set()
    for file in COLLECTORS.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[A-Za-z_]+", node.value):
                words.add(node.value)
    jobs = {f"slurm_{scope}jobs_{state}" for scope in ("", "partition_", "account_") for state in ("pending", "running", "hold")}
    return frozenset(words | jobs | {"slurm_nodes_drain", "slurm_partition_nodes_idle"})


def metrics_of(expression: str) -> Iterator[str]:
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\b(?:on|by|ignoring)\s*\([^)]*\)", "", bare)
    for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)):
        if word not in WORDS:
            yield word


@functools.cache
def known_metrics() -> frozenset[str]:
    """Every metric of collectors, results and Prometheus itself."""
    results = {name for text in published().values() for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)}
    return written_metrics() | results | BUILT_IN | {"rackwright_plan_target", "rackwright_plan_collector", "rackwright_node_suspended"}


@each_row("rule", alerts().values(), ids=lambda rule: rule.name)
def test_rule_reads_metrics_that_exist(rule: Any) -> None:
    """A misspelt metric has no series: the alert would be silent for ever."""
    known = known_metrics()
    foreign = ("node_", "prometheus_", "alertmanager_")
    for expression in (rule.expression, rule.power_saving):
        unknown = [name for name in metrics_of(expression) if name not in known and not name.startswith(foreign)]
        assert [name for name in unknown if not is_kept(name)] == []


ENABLED = {
    "node_filesystem_avail_bytes": "filesystem",
    "node_filesystem_files": "filesystem",
    "node_filesystem_files_free": "filesystem",
    "node_filesystem_size_bytes": "filesystem",
    "node_memory_MemAvailable_bytes": "meminfo",
    "node_memory_MemTotal_bytes": "meminfo",
    "node_network_receive_errs_total": "netdev",
    "node_network_receive_packets_total": "netdev",
    "node_boot_time_seconds": "stat",
    "node_textfile_mtime_seconds": "textfile",
    "node_textfile_scrape_error": "textfile",
    "node_timex_maxerror_seconds": "timex",
    "node_timex_offset_seconds": "timex",
    "node_timex_sync_status": "timex",
    "node_vmstat_oom_kill": "vmstat",
}
"""Collector of node_exporter 1.9.0 that has the metric (its output on Debian 13)."""


def test_collectors_of_node_exporter_are_enabled() -> None:
    used = {name for rule in alerts().values() for name in metrics_of(rule.expression) if name.startswith("node_")}
    assert used == set(ENABLED)
    unit = ROOT / "roles/node_exporter/templates/etc/systemd/system/prometheus-node-exporter.service.d/rackwright.conf.j2"
    assert {name for name in ENABLED.values() if f"--collector.{name} " not in unit.read_text(encoding="utf-8")} == set()


def test_plan_records_its_sizes() -> None:
    plan = monitored(nodes={"worker1": {"state": "out", "reason": "bad DIMM", "until": "2026-12-31"}})
    (recorded,) = [group["rules"] for group in groups(plan) if group["name"] == PLAN_GROUP]
    sizes = {rule["record"].removeprefix("rackwright_plan_"): rule["expr"] for rule in recorded if "labels" not in rule}
    assert sizes == {"nodes": "vector(3)", "nodes_out": "vector(1)", "gpus": "vector(8)", "cables": f"vector({len(wiring(plan).cables)})"}


def test_alerts_about_results_do_not_fail_verification() -> None:
    """The next verification would fail because the last one did."""
    assert {rule.name for rule in alerts().values() if rule.group == "results" and rule.is_checked} == set()
    assert alerts()["TargetDown"].is_checked and not alerts()["Watchdog"].is_checked and not alerts()["NodeRebooted"].is_checked


def test_alerts_about_jobs_do_not_fail_verification() -> None:
    """A rank that its user has stopped is no fault of the cluster; missing samples are one."""
    assert {rule.name for rule in alerts().values() if rule.group == "jobs" and rule.is_checked} == set()
    assert alerts()["JobNodeUnread"].is_checked and alerts()["JobsNotJudged"].is_checked


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_of_finding_raises_one_alert(kind: Kind) -> None:
    """A kind that no rule selects would be silent, and two rules would report it twice."""
    selected = {rule.name: re.findall(r'kind=~?"([^"]+)"', rule.expression) for rule in alerts().values() if rule.group == "jobs"}
    assert len([name for name, found in selected.items() if kind.value in found[0].split("|")]) == 1


def test_alerts_about_jobs_need_the_prometheus_of_the_cluster() -> None:
    """The judgement runs beside it; with a Prometheus of the site there is none."""
    site = monitored(monitoring={"kind": "external", "sources": ["192.0.2.10/32"]})
    assert not {name for name in names(site) if name.startswith("Job")}
    assert {"JobRankStopped", "JobRankSlow", "JobHung", "JobIdle", "JobNodeUnread"} <= names(monitored())


def test_product_has_the_table() -> None:
    assert (ROOT / layout.PACKAGE / "catalog" / "alerts.yml").is_file()
