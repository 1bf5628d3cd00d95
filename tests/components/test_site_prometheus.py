"""Configuration for the site's Prometheus and Alertmanager by their own tools: accepted, and each alert fires for its own stack only."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.monitored import declared_of
from test_alert_rules import all_rules, annotations, promtool_tests, with_promtool

from rackwright.drivers.certificates import create_authority, create_certificate
from rackwright.inventory.promql import with_label
from rackwright.inventory.site_prometheus import render
from rackwright.yaml_loader import load_yaml

EXTERNAL: dict[str, Any] = {"kind": "external", "sources": ["192.0.2.10/32"]}
AMTOOL = shutil.which("amtool")
with_amtool = pytest.mark.skipif(AMTOOL is None, reason="amtool is not installed (Debian: package prometheus-alertmanager)")


def run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def installed(folder: Path) -> None:
    """Write everything that a site installs, with a client certificate."""
    for name, text in render(declared_of(monitoring=EXTERNAL), "https://site.example.org/targets.json").items():
        (folder / name).write_text(text)
    authority = create_authority("stack", datetime.now(UTC))
    client = create_certificate("prometheus", "client", ["prometheus"], authority, datetime.now(UTC))
    for name, text in (("authority.crt", authority.certificate), ("client.crt", client.certificate), ("client.key", client.private_key)):
        (folder / name).write_text(text)


@with_promtool
@pytest.mark.parametrize("scrape", ["prometheus-scrape.yml", "prometheus-scrape-http.yml"])
def test_promtool_accepts_the_configuration(tmp_path: Path, scrape: str) -> None:
    """The tool reads the files that the configuration names: rules, targets, certificates."""
    (tmp_path / "stack").mkdir()
    installed(tmp_path / "stack")
    whole = {"scrape_config_files": [f"stack/{scrape}"], "rule_files": ["stack/prometheus-rules.yml"]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(whole))
    run(tmp_path, "promtool", "check", "config", "prometheus.yml")


@with_promtool
def test_promtool_refuses_missing_certificate(tmp_path: Path) -> None:
    (tmp_path / "stack").mkdir()
    installed(tmp_path / "stack")
    (tmp_path / "stack" / "client.key").unlink()
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_config_files": ["stack/prometheus-scrape.yml"]}))
    with pytest.raises(AssertionError, match=r"client\.key"):
        run(tmp_path, "promtool", "check", "config", "prometheus.yml")


@with_amtool
def test_amtool_accepts_the_routes(tmp_path: Path) -> None:
    """The snippet, merged as its comment says."""
    snippet = load_yaml(render(declared_of(monitoring=EXTERNAL))["alertmanager-snippet.yml"])
    whole = {
        "route": {"receiver": "site", "routes": snippet["route"]["routes"]},
        "receivers": [{"name": "site"}, *snippet["receivers"]],
        "inhibit_rules": snippet["inhibit_rules"],
    }
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(whole))
    run(tmp_path, "amtool", "check-config", "alertmanager.yml")
    for labels, receiver in ((("severity=none", "stack=small"), "rackwright-small-none"), (("severity=none", "stack=other"), "site")):
        run(tmp_path, "amtool", "config", "routes", "test", "--config.file=alertmanager.yml", f"--verify.receivers={receiver}", *labels)


def of_stack(series: str, stack: str) -> str:
    """Return a series with the label `stack`, in place of one that it has."""
    series = re.sub(r'stack="[^"]*",?', "", series)
    return re.sub(r"\{", f'{{stack="{stack}",', series, count=1) if "{" in series else f'{series}{{stack="{stack}"}}'


def scoped_tests() -> dict[str, Any]:
    """The rule tests with every series twice: of this stack, and of another that no alert may mention."""
    tests = promtool_tests()
    for case in tests["tests"]:
        case["input_series"] = [
            {**one, "series": of_stack(one["series"], stack)} for one in case["input_series"] for stack in ("small", "other")
        ]
        for expected in case["alert_rule_test"]:
            for alert in expected["exp_alerts"]:
                alert["exp_labels"]["stack"] = "small"
                alert["exp_annotations"] = annotations(expected["alertname"], alert["exp_labels"])
    return tests


@with_promtool
def test_each_alert_fires_for_its_stack_only(tmp_path: Path) -> None:
    rules = json.loads(all_rules())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = with_label(rule["expr"], "stack", "small")
            rule.setdefault("labels", {})["stack"] = "small"  # A recording rule may have none.
    (tmp_path / "rules.yml").write_text(json.dumps(rules))
    (tmp_path / "tests.yml").write_text(json.dumps(scoped_tests()))
    run(tmp_path, "promtool", "test", "rules", "tests.yml")
