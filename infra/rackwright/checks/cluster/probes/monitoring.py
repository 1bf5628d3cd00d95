"""Probes of monitoring: what Prometheus and Alertmanager report of themselves, and whether ports answer without a certificate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.probes.units import ALERTMANAGER, NODE_EXPORTER, PROMETHEUS
from rackwright.remote.command import python_command

REFUSED: Final = "certificate required"
"""TLS alert 116 (RFC 8446, 6.2), by which a server refuses a client without a certificate."""
NOT_LISTENING: Final = "connection refused"
"""What a port without a daemon says."""
OWN_JOBS: Final = ("node", "prometheus", "alertmanager")
"""Jobs whose daemons demand a certificate of the stack in TLS."""
_SETTLING: Final = 10
"""Seconds beside two scrape intervals after which all targets are read, all rules evaluated, and Alertmanager has the first alert.

The first sending may come before Prometheus knows Alertmanager; the next follows after an interval (roles/prometheus, resend-delay).
"""


def _planned(context: ProbeContext) -> Mapping[str, Any]:
    """Return the plan of monitoring. Raises LookupError if the plan has none; the checks' features exclude that."""
    if context.declared.monitoring is None:
        raise LookupError("the plan has no monitoring")
    return context.declared.monitoring


def _query(context: ProbeContext, topic: str) -> str:
    planned = _planned(context)
    ports = {one["job"]: one["port"] for one in planned["targets"]}
    settle = 2 * planned["interval_s"] + _SETTLING
    starts = bool((context.declared.cluster.get("scheduler") or {}).get("power_saving"))
    request = {"topic": topic, "host": planned["server"], "ports": ports, "settle_s": settle, "nodes_start": starts}
    return python_command("monitoring_api", request)


_LONGEST: Final = 135.0
"""Seconds for an answer: two of the longest scrape intervals (rule monitoring-interval, 60 s), _SETTLING, and one response."""


def parse_targets(text: str) -> dict[str, str]:
    """Return the state of each target, `up` or the error, by `job on instance`."""
    found = {f"{job} on {instance}": _health(health, error) for job, instance, health, error in _rows(text, str, str, str, str)}
    if not found:
        raise ValueError("no target is listed")
    return found


def _health(health: str, error: str) -> str:
    if health not in ("up", "down", "unknown"):
        raise ValueError(f'"{health}" is not a state of a target')
    return health if health == "up" else error or health


TARGETS = Probe(
    "monitoring-targets",
    on="monitoring_server",
    command=lambda context: _query(context, "targets"),
    parse=parse_targets,
    needs=(PROMETHEUS,),
    timeout=_LONGEST,
)


@dataclass(frozen=True)
class RuleState:
    """A rule of Prometheus: its error, empty if it has none, and the seconds since its evaluation."""

    error: str
    age: float


def parse_rules(text: str) -> dict[str, RuleState]:
    """Return alert rules by name, and recorded series by name; of several with one name, the oldest or broken one."""
    found: dict[str, RuleState] = {}
    for kind, name, health, error, age in _rows(text, str, str, str, str, float):
        if kind not in ("alerting", "recording") or health not in ("ok", "err", "unknown"):
            raise ValueError(f'"{kind} {name} {health}" is not a state of a rule')
        state = RuleState("" if health == "ok" else error or health, age)
        worse = found.get(name)
        found[name] = state if worse is None or (bool(state.error), state.age) > (bool(worse.error), worse.age) else worse
    if not found:
        raise ValueError("no rule is listed")
    return found


RULES = Probe(
    "monitoring-rules",
    on="monitoring_server",
    command=lambda context: _query(context, "rules"),
    parse=parse_rules,
    needs=(PROMETHEUS,),
    timeout=_LONGEST,
)


def parse_firing(text: str) -> dict[str, str]:
    """Return the summary of each alert that fires, by `name on instance`. None is a valid output: even Watchdog may be missing."""
    return {f"{name} on {instance}" if instance else name: summary for name, instance, _, summary in _rows(text, str, str, str, str)}


FIRING = Probe(
    "monitoring-firing",
    on="monitoring_server",
    command=lambda context: _query(context, "firing"),
    parse=parse_firing,
    needs=(PROMETHEUS,),
    timeout=15,
)


def parse_received(text: str) -> dict[str, float]:
    """Return the seconds since the last update of each alert that Alertmanager has, by name."""
    found: dict[str, float] = {}
    for name, age in _rows(text, str, float):
        found[name] = min(age, found.get(name, age))
    return found


RECEIVED = Probe(
    "monitoring-received",
    on="monitoring_server",
    command=lambda context: _query(context, "received"),
    parse=parse_received,
    needs=(ALERTMANAGER,),
    timeout=_LONGEST,
)


def _access(context: ProbeContext) -> str:
    """Return the command that asks all ports of monitoring on a node; those of Kubernetes refuse in HTTP, as checks of their own see."""
    name = context.node["name"]
    targets = _planned(context)["targets"]
    ports = {one["job"]: one["port"] for one in targets if one["node"] == name and one["job"] in OWN_JOBS}
    return python_command("monitoring_api", {"topic": "access", "host": name, "ports": ports, "settle_s": 0})


def parse_access(text: str) -> dict[str, str]:
    """Return what each port says to a client without a certificate, by job."""
    found: Any = json.loads(text)
    if not isinstance(found, dict) or not found or not all(isinstance(said, str) and said for said in found.values()):
        raise ValueError("no port was asked")
    return {name: REFUSED if REFUSED in said else said for name, said in found.items()}


ACCESS = Probe("monitoring-access", on="monitoring_node", command=_access, parse=parse_access, needs=(NODE_EXPORTER,), timeout=20)


@dataclass(frozen=True)
class KeyFile:
    """Mode and owner of a private key."""

    mode: str
    owner: str


def parse_keys(text: str) -> dict[str, KeyFile]:
    """Return the private keys by path, from lines `MODE USER:GROUP PATH`."""
    found = {}
    for line in text.splitlines():
        row = re.fullmatch(r"([0-7]{3,4}) ([\w-]+:[\w-]+) (/\S+)", line.strip())
        if not row:
            raise ValueError(f'"{line}" is not a key file')
        found[row[3]] = KeyFile(row[1], row[2])
    if not found:
        raise ValueError("no key is listed")
    return found


KEYS = Probe(
    "monitoring-keys",
    on="monitoring_node",
    command="find /etc/rackwright/node_exporter /etc/prometheus -name '*.key' -exec stat --format='%a %U:%G %n' {} +",
    parse=parse_keys,
    statuses=frozenset({0, 1}),  # 1: a node without Prometheus has no /etc/prometheus
)


def _rows(text: str, *kinds: type) -> list[list[Any]]:
    """Return the rows of a JSON list. Raises ValueError for a row of other values: an age must not be a text."""
    rows: Any = json.loads(text)
    if not isinstance(rows, list):
        raise ValueError("no list")
    for row in rows:
        fits = isinstance(row, list) and len(row) == len(kinds)
        if not fits or not all(isinstance(cell, (int, float) if kind is float else kind) for cell, kind in zip(row, kinds, strict=True)):
            raise ValueError("a row has other values")
    return rows
