"""The alert rules by the tools of Prometheus: the file is accepted, and each alert is seen firing, with its labels, and quiet."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.monitored import monitored

from rackwright.catalog.alerts import alerts
from rackwright.inventory.alert_rules import rule_groups
from rackwright.yaml_loader import load_yaml

HERE = Path(__file__).parent
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: package promtool)")


def lab_rules() -> str:
    """The rule file as the role writes it: a label in an annotation becomes a template of Prometheus."""
    plan = monitored()
    assert plan.monitoring is not None
    return re.sub(r"<([a-z_]+)>", r"{{ $labels.\1 }}", json.dumps(rule_groups(plan, plan.monitoring)))


def test_every_alert_has_a_rule_test() -> None:
    tests = load_yaml((HERE / "alert_rule_tests.yml").read_text(encoding="utf-8"))
    tested = {name for one in tests for name, found in one["fires"].items() if found}
    assert set(alerts()) - tested == set(), "each alert is seen firing in a test of promtool"


def promtool_tests(file: str = "alert_rule_tests.yml") -> dict[str, Any]:
    """The file of `promtool test rules`: each row with series that must fire exactly the named alerts at a time."""
    rows = load_yaml((HERE / file).read_text(encoding="utf-8"))
    cases = []
    for row in rows:
        wanted = [
            {
                "alertname": name,
                "eval_time": row["at"],
                "exp_alerts": [
                    {"exp_labels": {"severity": alerts()[name].severity.value, **labels}, "exp_annotations": annotations(name, labels)}
                    for labels in fired
                ],
            }
            for name, fired in row["fires"].items()
        ]
        series = [{"series": name, "values": values} for name, values in row["series"].items()]
        cases.append({"name": row["name"], "interval": "15s", "input_series": series, "alert_rule_test": wanted})
    return {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": cases}


def annotations(name: str, labels: dict[str, str]) -> dict[str, str]:
    rule = alerts()[name]
    texts = {"summary": rule.summary, "remedy": rule.remedy, "runbook": rule.runbook}
    return {key: re.sub(r"<([a-z_]+)>", lambda found: labels.get(found[1], ""), text) for key, text in texts.items()}


def all_rules() -> str:
    """Every alert, whatever the plan has, beside the recorded series of the plan."""
    plan = monitored()
    assert plan.monitoring is not None
    recorded = rule_groups(plan, plan.monitoring)["groups"][0]
    every = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.hold,
            "labels": {"severity": rule.severity.value},
            "annotations": {"summary": rule.summary, "remedy": rule.remedy, "runbook": rule.runbook},
        }
        for rule in alerts().values()
    ]
    text = json.dumps({"groups": [recorded, {"name": "all", "rules": every}]})
    return re.sub(r"<([a-z_]+)>", r"{{ $labels.\1 }}", text)


@with_promtool
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    for name, text in (("rules.yml", lab_rules()), ("all.yml", all_rules())):
        (tmp_path / name).write_text(text)
        done = subprocess.run([str(PROMTOOL), "check", "rules", name], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_promtool_sees_each_alert_fire(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(all_rules())
    (tmp_path / "tests.yml").write_text(json.dumps(promtool_tests()))
    done = subprocess.run([str(PROMTOOL), "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@with_promtool
def test_stopped_nodes_raise_no_alert(tmp_path: Path) -> None:
    """The rules of a cluster with power saving: nodes that Slurm has stopped are quiet, all others are reported as before."""
    plan = monitored(scheduler={"kind": "slurm", "power_saving": {"suspend_time": "10m"}})
    assert plan.monitoring is not None
    text = json.dumps(rule_groups(plan, plan.monitoring))
    (tmp_path / "rules.yml").write_text(re.sub(r"<([a-z_]+)>", r"{{ $labels.\1 }}", text))
    (tmp_path / "tests.yml").write_text(json.dumps(promtool_tests("power_saving_rule_tests.yml")))
    done = subprocess.run([str(PROMTOOL), "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
