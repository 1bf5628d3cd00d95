"""Configuration for a Prometheus and an Alertmanager of the site: targets, scrape configuration, rules, routes. No secret is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from rackwright.inventory.reader import Inventory

TARGETS: Final = "targets.json"
SCRAPE: Final = "prometheus-scrape.yml"
SCRAPE_HTTP: Final = "prometheus-scrape-http.yml"
RULES: Final = "prometheus-rules.yml"
ROUTES: Final = "alertmanager-snippet.yml"
AUTHORITY: Final = "authority.crt"
CLIENT_CERTIFICATE: Final = "client.crt"
CLIENT_KEY: Final = "client.key"

INHIBITIONS: Final = (
    (('alertname="TargetDown"', 'job="node"'), ('alertname!="TargetDown"',), ("instance",)),
    (('alertname="KubernetesUnanswered"',), ('alertname="TargetDown"', 'job=~"kubelet|cadvisor"'), ("stack",)),
    (('alertname="DiskFull"',), ('alertname="DiskAlmostFull"',), ("instance", "mountpoint")),
    (('alertname="SharedFsFull"',), ('alertname="SharedFsAlmostFull"',), ("instance", "mountpoint")),
)
"""Matchers of the alert that inhibits, those of the inhibited ones, and the labels that must be equal: those of roles/alertmanager."""


def render(declared: Inventory, http_sd_url: str | None = None) -> dict[str, str]:
    """Return the files by name. `http_sd_url`: the URL at which the site will serve the list of targets, for a second scrape configuration.

    Paths in them are relative, so that the folder works wherever it is installed.
    """
    files = {
        TARGETS: json.dumps(_targets(declared), indent=2) + "\n",
        SCRAPE: _scrape(declared, {"file_sd_configs": [{"files": [TARGETS]}]}),
        RULES: _rules(declared),
        ROUTES: _routes(declared.stack),
    }
    return files | ({SCRAPE_HTTP: _scrape(declared, {"http_sd_configs": [{"url": http_sd_url}]})} if http_sd_url else {})


def _monitoring(declared: Inventory) -> Mapping[str, Any]:
    """Return the plan of monitoring. Raises LookupError for a stack without a Prometheus of the site."""
    if declared.monitoring is None or not declared.monitoring.get("external"):
        raise LookupError("the plan has no external monitoring")
    return declared.monitoring


def _targets(declared: Inventory) -> list[dict[str, Any]]:
    """Return the targets in the form of file_sd and of http_sd, one entry per node with its labels."""
    monitoring = _monitoring(declared)
    key = "fqdn" if monitoring["external"]["scrape_by"] == "name" else "address"
    hosts = {host["name"]: host[key] for host in declared.cluster["hosts"]}
    return [
        {
            "targets": [f"{hosts[target['node']]}:{target['port']}"],
            "labels": {"job": target["job"], "instance": target["node"], "stack": declared.stack},
        }
        for target in monitoring["targets"]
    ]


def _scrape(declared: Inventory, discovery: Mapping[str, Any]) -> str:
    monitoring = _monitoring(declared)
    site = monitoring["external"]
    tls = {
        "ca_file": AUTHORITY,
        "cert_file": site["certificate_file"] or CLIENT_CERTIFICATE,
        "key_file": site["key_file"] or CLIENT_KEY,
        "min_version": "TLS13",
    }
    job = {
        "job_name": f"rackwright-{declared.stack}",
        "scheme": "https",
        "scrape_interval": f"{monitoring['interval_s']}s",
        # Not longer than the interval, which Prometheus would refuse; 10 s is its default.
        "scrape_timeout": f"{min(monitoring['interval_s'], 10)}s",
        "tls_config": tls,
        **discovery,
    }
    said = (
        "For `scrape_config_files` of prometheus.yml (Prometheus 2.43 and later). The labels job, instance and stack come with the targets."
    )
    return _yaml(declared.stack, said, {"scrape_configs": [job]})


def _rules(declared: Inventory) -> str:
    """Return the rules; the table names a label in an annotation as `<label>`, and Prometheus as a template."""
    text = json.dumps(_monitoring(declared)["rules"])
    rules = json.loads(re.sub(r"<([a-z_]+)>", r"{{ $labels.\1 }}", text))
    return _yaml(declared.stack, "For `rule_files` of prometheus.yml. Every rule reads series of this stack only.", rules)


def _routes(stack: str) -> str:
    ours = f'stack="{stack}"'
    without_notification = f"rackwright-{stack}-none"
    content = {
        "route": {
            "routes": [
                {
                    "matchers": [ours],
                    "group_by": ["stack", "alertname"],
                    "group_wait": "5s",
                    "group_interval": "1m",
                    "repeat_interval": "4h",
                    "routes": [{"receiver": without_notification, "matchers": ['severity="none"']}],
                }
            ]
        },
        "inhibit_rules": list(_inhibitions(ours)),
        "receivers": [{"name": without_notification}],
    }
    said = (
        "Parts of alertmanager.yml, which includes no other files: add each entry to the list of that name there, the route first.\n"
        "# Alerts go to the receiver of the route above; add `receiver: NAME` below `matchers` for another."
    )
    return _yaml(stack, said, content)


def _inhibitions(ours: str) -> Iterator[dict[str, Any]]:
    for source, inhibited, equal in INHIBITIONS:
        yield {"source_matchers": [ours, *source], "target_matchers": [ours, *inhibited], "equal": list(equal)}


def _yaml(stack: str, said: str, content: Mapping[str, Any]) -> str:
    return f"# Written by rackwright for the stack {stack}; local changes are lost.\n# {said}\n" + yaml.safe_dump(
        dict(content), sort_keys=False, width=120
    )
