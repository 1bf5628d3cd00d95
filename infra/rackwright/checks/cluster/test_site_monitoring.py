"""Only the Prometheus of the site may read the exporters; where the stack file declares its URL, it reads them."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from rackwright.catalog.alerts import AlertSeverity, alerts
from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.firewall import RULESET, Packet
from rackwright.checks.cluster.probes.site_monitoring import (
    ALERTS_AT_SITE,
    ANSWERS,
    AT_SITE,
    CLIENT_SETTINGS,
    NONE,
    RULES_AT_SITE,
    WITH_CLIENT,
    fingerprints,
)

STRANGER = "203.0.113.9"
"""An address of the documentation range (RFC 5737): never assigned to a host."""


def test_accepted_clients_match_plan(ask: Ask, monitoring: Mapping[str, Any], expect: Expect) -> None:
    """Another authority or name gives the metrics to others, and keeps the site's Prometheus out."""
    site, found = monitoring["external"], ask(CLIENT_SETTINGS)
    wanted = {"demands": "RequireAndVerifyClientCert", "names": list(site["client_names"])}
    said: dict[str, Any] = {"demands": found.demands, "names": list(found.names)}
    if site["client_authority"]:  # The stack's own is no part of the plan; client_is_answered proves it.
        wanted["authorities"] = list(fingerprints(site["client_authority"]))
        said["authorities"] = list(found.authorities)
    expect(said, wanted)


def test_client_is_answered(ask: Ask, expect: Expect) -> None:
    """The certificate that is handed out must open each exporter, and each exporter must show a certificate of the stack."""
    expect(ask(WITH_CLIENT), ANSWERS)


def test_firewall_admits_prometheus(node: Record, monitoring: Mapping[str, Any], ask: Ask, expect: Expect) -> None:
    """Only the declared servers may connect to the exporter from outside of the cluster."""
    ruleset, sources = ask(RULESET), [IPv4Network(network) for network in monitoring["external"]["sources"]]
    port = next(one["port"] for one in monitoring["targets"] if one["node"] == node.name and one["job"] == "node")
    tested = {str(network): str(network[min(1, network.num_addresses - 1)]) for network in sources}
    if not any(IPv4Network(STRANGER).subnet_of(network) for network in sources):
        tested["others"] = STRANGER
    admitted = [name for name, address in tested.items() if ruleset.admits(Packet(address, port, node.address))]
    expect(admitted, [name for name in tested if name != "others"])


def test_prometheus_reads_node(ask: Ask, expect: Expect) -> None:
    """A node that the site's Prometheus does not read raises no alert there."""
    expect(ask(AT_SITE), "up")


def test_rules_are_loaded(ask: Ask, expect: Expect) -> None:
    """A rule that was not loaded, or that fails, never fires."""
    expect(f"missing or broken: {ask(RULES_AT_SITE)}", f"missing or broken: {NONE}")


def test_no_alert_fires(ask: Ask, expect: Expect) -> None:
    """Each alert has a runbook in docs/reference/alerts.md. Alerts of past events are left out: nothing can be done to end them."""
    left_out = {name for name, rule in alerts().items() if rule.severity is AlertSeverity.NONE or rule.event}
    firing = ask(ALERTS_AT_SITE)
    expect([name for name in firing.split(", ") if name not in {*left_out, NONE}], [])
