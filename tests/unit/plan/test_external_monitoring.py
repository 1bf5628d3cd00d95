"""Monitoring by a Prometheus of the site in the plan: exporters only, and who may read them."""

from __future__ import annotations

from typing import Any

import pytest
from support.monitored import monitored

from rackwright.plan import Plan

EXTERNAL: dict[str, Any] = {"kind": "external", "sources": ["192.0.2.10/32"]}
CLIENT = {"authority": "PEM", "names": ["prom.example.org"], "certificate_file": "/etc/p/client.crt", "key_file": "/etc/p/client.key"}


def planned(**declared: Any) -> Any:
    plan = monitored(monitoring={**EXTERNAL, **declared})
    assert plan.monitoring is not None and plan.monitoring.external is not None
    return plan.monitoring


def test_plan_has_exporters_and_no_prometheus() -> None:
    plan = monitored(monitoring=EXTERNAL)
    assert plan.groups["monitoring_server"] == ()
    assert plan.groups["monitoring_node"] == ("login0", "worker0", "worker1", "storage0")
    found = planned()
    assert {one.job for one in found.targets} == {"node"}
    assert found.server is None and found.receivers == ()
    assert not [unit for node in found.nodes for unit in node.units if unit in ("prometheus.service", "prometheus-alertmanager.service")]


def test_plan_is_read_back() -> None:
    plan = monitored(monitoring=EXTERNAL)
    assert Plan.from_data(plan.to_data()) == plan


def test_builtin_plan_has_no_trace_of_the_site() -> None:
    assert "external" not in monitored().to_data()["monitoring"]


@pytest.mark.parametrize(
    ("declared", "names", "authority"),
    [({}, ("prometheus",), None), ({"client": CLIENT}, ("prom.example.org",), "PEM")],
    ids=["own", "site"],
)
def test_accepted_clients_are_those_declared(declared: dict[str, Any], names: tuple[str, ...], authority: str | None) -> None:
    site = planned(**declared).external
    assert (site.client_names, site.client_authority) == (names, authority)


def test_nothing_is_queried_without_a_url() -> None:
    assert planned().external.url is None
    assert planned(prometheus={"url": "https://prom.example.org/"}).external.url == "https://prom.example.org"
