"""Configuration for the site's Prometheus: what is in it, and what is not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.monitored import declared_of

from rackwright.inventory import site_prometheus
from rackwright.inventory.site_prometheus import render
from rackwright.yaml_loader import load_yaml

EXTERNAL: dict[str, Any] = {"kind": "external", "sources": ["192.0.2.10/32"]}
CLIENT = {"authority": "PEM", "names": ["prom"], "certificate_file": "/etc/p/client.crt", "key_file": "/etc/p/client.key"}
ROOT = Path(__file__).parents[3]


def rendered(http_sd_url: str | None = None, **declared: Any) -> dict[str, Any]:
    """Return the files, parsed."""
    files = render(declared_of(monitoring={**EXTERNAL, **declared}), http_sd_url)
    return {name: json.loads(text) if name.endswith(".json") else load_yaml(text) for name, text in files.items()}


@pytest.mark.parametrize(("by", "host"), [("address", "10.77.0."), ("name", "login0.small.internal")])
def test_every_node_is_a_target(by: str, host: str) -> None:
    targets = rendered(scrape_by=by)["targets.json"]
    assert [one["labels"]["instance"] for one in targets] == ["login0", "worker0", "worker1", "storage0"]
    assert targets[0]["targets"][0].startswith(host) and targets[0]["targets"][0].endswith(":9100")
    assert {(one["labels"]["job"], one["labels"]["stack"]) for one in targets} == {("node", "small")}


@pytest.mark.parametrize(
    ("declared", "certificate", "key"),
    [({}, "client.crt", "client.key"), ({"client": CLIENT}, "/etc/p/client.crt", "/etc/p/client.key")],
    ids=["own", "site"],
)
def test_scrape_configuration_names_the_client_certificate(declared: dict[str, Any], certificate: str, key: str) -> None:
    (job,) = rendered(**declared)["prometheus-scrape.yml"]["scrape_configs"]
    assert (job["tls_config"]["cert_file"], job["tls_config"]["key_file"]) == (certificate, key)
    assert job["file_sd_configs"] == [{"files": ["targets.json"]}]
    assert "static_configs" not in job and "insecure_skip_verify" not in job["tls_config"]


def test_scrape_configuration_with_http_is_added_on_request() -> None:
    assert "prometheus-scrape-http.yml" not in rendered()
    (job,) = rendered("https://site.example.org/targets.json")["prometheus-scrape-http.yml"]["scrape_configs"]
    assert job["http_sd_configs"] == [{"url": "https://site.example.org/targets.json"}] and "file_sd_configs" not in job


def test_scrape_timeout_is_not_longer_than_the_interval() -> None:
    (job,) = rendered(scrape_interval="5s")["prometheus-scrape.yml"]["scrape_configs"]
    assert (job["scrape_interval"], job["scrape_timeout"]) == ("5s", "5s")


def test_rules_read_one_stack_and_name_it() -> None:
    rules = [rule for group in rendered()["prometheus-rules.yml"]["groups"] for rule in group["rules"]]
    assert {rule["labels"]["stack"] for rule in rules} == {"small"}
    unlabelled = [rule for rule in rules if 'stack="small"' not in rule["expr"]]
    assert all(re.fullmatch(r"vector\(\d+\)", rule["expr"]) for rule in unlabelled), unlabelled
    assert [rule["alert"] for rule in unlabelled if "alert" in rule] == ["Watchdog"]
    down = next(rule for rule in rules if rule.get("alert") == "TargetDown")
    assert down["annotations"]["summary"] == "Prometheus cannot read {{ $labels.job }} on {{ $labels.instance }}"


def test_rules_about_a_prometheus_of_the_cluster_are_left_out() -> None:
    names = {rule.get("alert") for group in rendered()["prometheus-rules.yml"]["groups"] for rule in group["rules"]}
    assert {"TargetDown", "Watchdog", "GpuXid"} <= names
    assert not names & {
        "RuleBroken",
        "AlertmanagerLost",
        "NotificationsFail",
        "ConfigurationRefused",
        "MetricsStorageBroken",
        "RulesMissed",
    }


def test_alerts_of_other_stacks_are_not_inhibited() -> None:
    for rule in rendered()["alertmanager-snippet.yml"]["inhibit_rules"]:
        assert 'stack="small"' in rule["source_matchers"] and 'stack="small"' in rule["target_matchers"]


def test_inhibitions_are_those_of_the_role() -> None:
    role = ROOT / "tests/golden/roles/monitoring/login0/etc/prometheus/alertmanager.yml"
    of_role = load_yaml(role.read_text(encoding="utf-8"))["inhibit_rules"]
    ours = rendered()["alertmanager-snippet.yml"]["inhibit_rules"]
    without = [
        {**rule, **{key: [one for one in rule[key] if one != 'stack="small"'] for key in ("source_matchers", "target_matchers")}}
        for rule in ours
    ]
    assert without == of_role


def test_stack_with_own_prometheus_is_refused() -> None:
    with pytest.raises(LookupError):
        render(declared_of())


def test_no_secret_is_rendered() -> None:
    text = "".join(render(declared_of(monitoring=EXTERNAL), "https://site.example.org/t").values())
    assert "PRIVATE KEY" not in text and site_prometheus.AUTHORITY in text
