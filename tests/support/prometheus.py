"""Prometheus and Alertmanager of a lab, queried from the monitoring node with its client certificate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any, Final

from support.project import Project

from rackwright.catalog.alerts import alerts

ASK: Final = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile="/etc/prometheus/tls/authority.crt")
context.load_cert_chain("/etc/prometheus/tls/client.crt", "/etc/prometheus/tls/client.key")
print(urllib.request.urlopen(sys.argv[1], context=context, timeout=60).read().decode())
"""
PATIENCE: Final = 300.0
"""Seconds until an alert must fire: the longest `for` of the tested ones is two minutes, and a starved machine is slow."""


def query(project: Project, path: str, port: int = 9090) -> Any:
    """Return the data of a query that the monitoring node sends."""
    return json.loads(project.ssh("login0", f"python3 -c '{ASK}' 'https://login0:{port}{path}'").output)


def await_alert_series(project: Project) -> None:
    """Wait until `Watchdog` is a series: Prometheus writes none of a group of rules before it has evaluated the group twice."""
    began = time.monotonic()
    while not query(project, "/api/v1/query?query=ALERTS%7Balertname=%22Watchdog%22%7D")["data"]["result"]:
        assert time.monotonic() - began < PATIENCE, "Prometheus writes no series of Watchdog"
        time.sleep(2)


def alerts_in(project: Project, *states: str) -> set[tuple[str, str]]:
    """Return name and instance of each alert in one of the states `pending` and `firing`."""
    found = query(project, "/api/v1/alerts")["data"]["alerts"]
    return {(one["labels"]["alertname"], one["labels"].get("instance", "")) for one in found if one["state"] in states}


def await_alerts(project: Project, wanted: Iterable[tuple[str, str]], *states: str) -> dict[tuple[str, str], float]:
    """Wait until each alert is in one of the states; return the seconds until it was. Raise AssertionError with those that are."""
    began, seconds = time.monotonic(), dict[tuple[str, str], float]()
    while missing := set(wanted) - set(seconds):
        found = alerts_in(project, *states)
        seconds |= dict.fromkeys(missing & found, round(time.monotonic() - began))
        assert missing <= found or time.monotonic() - began < PATIENCE, f"{missing - found} are not {states}: {found}"
        time.sleep(2)
    return seconds


def await_quiet(project: Project) -> None:
    """Wait until no alert fires that a verification reports."""
    began = time.monotonic()
    while found := {one for one in alerts_in(project, "firing") if alerts()[one[0]].is_checked}:
        assert time.monotonic() - began < PATIENCE, f"still firing: {found}"
        time.sleep(2)
