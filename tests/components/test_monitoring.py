"""Certificates of monitoring under mocks: which resources a plan has, with which inputs, and where the secrets go."""

from __future__ import annotations

from typing import Any

from recording import Recording, committed, run
from support.monitored import monitored

from rackwright.targets.secrets import generated_secrets


def registered(stack: str) -> tuple[Recording, dict[str, Any]]:
    """Return what a plan registers, and the secrets for Converge."""
    recording, made = Recording(), {}
    run(lambda: made.update(generated_secrets(committed(stack))), recording, stack)
    return recording, made


def test_plan_without_monitoring_has_no_certificates() -> None:
    recording, secrets = registered("lab")
    assert not [name for name, (token, _) in recording.made.items() if "Certificate" in token]
    assert set(secrets) == {"munge_key", "accounting_password"}


def test_each_node_has_a_server_certificate_and_one_client_exists() -> None:
    recording, secrets = registered("lab-monitoring")
    assert recording.of("rackwright:secret:CertificateAuthority") == {"monitoring-authority": {"common_name": "lab-monitoring monitoring"}}
    certificates = recording.of("rackwright:secret:Certificate")
    nodes = ("login0", "worker0", "worker1", "storage0")
    assert set(certificates) == {"monitoring-client", *(f"{name}-monitoring" for name in nodes)}
    assert {name: one["usage"] for name, one in certificates.items() if one["usage"] != "server"} == {"monitoring-client": "client"}
    assert certificates["worker0-monitoring"]["names"] == ["worker0", "worker0.lab-monitoring.internal"]
    assert certificates["monitoring-client"]["names"] == ["prometheus"]
    assert set(secrets["monitoring"]) == {"authority", "client", "servers"}
    assert set(secrets["monitoring"]["servers"]) == set(nodes)


def test_authority_key_reaches_no_node() -> None:
    _, secrets = registered("lab-monitoring")
    assert set(secrets["monitoring"]["client"]) == {"certificate", "private_key"}
    assert all(set(one) == {"certificate", "private_key", "not_after"} for one in secrets["monitoring"]["servers"].values())
    assert not isinstance(secrets["monitoring"]["authority"], dict)


def external(**declared: Any) -> tuple[Recording, dict[str, Any]]:
    """Return what a plan with a Prometheus of the site registers, and the secrets for Converge."""
    recording, made = Recording(), {}
    plan = monitored(monitoring={"kind": "external", "sources": ["192.0.2.10/32"], **declared})
    run(lambda: made.update(generated_secrets(plan)), recording, "small")
    return recording, made


def test_prometheus_of_the_site_verifies_nodes_by_address() -> None:
    recording, secrets = external()
    certificates = recording.of("rackwright:secret:Certificate")
    assert certificates["login0-monitoring"]["names"] == ["login0", "login0.small.internal", "10.77.0.16"]
    assert set(secrets["monitoring"]) == {"authority", "client", "servers"}


def test_client_of_the_site_needs_no_certificate_of_the_stack() -> None:
    client = {"authority": "PEM", "names": ["prom"], "certificate_file": "/etc/p/client.crt", "key_file": "/etc/p/client.key"}
    recording, secrets = external(client=client)
    assert "monitoring-client" not in recording.of("rackwright:secret:Certificate")
    assert set(secrets["monitoring"]) == {"authority", "servers"}
