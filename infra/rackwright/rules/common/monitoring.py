"""Monitoring: its node, what it supports, and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.derive.monitoring import monitoring_node
from rackwright.model.finding import did_you_mean
from rackwright.model.groups import Role
from rackwright.model.monitoring import Monitoring
from rackwright.model.units import format_bytes, format_seconds
from rackwright.rules.registry import RuleContext, Violation, rule

SUPPORTED_OS: Final = "debian-13"
"""The release with whose packages the roles work: Prometheus 2.53.3, Alertmanager 0.28.1, node_exporter 1.9.0."""
MIN_INTERVAL: Final = 5
"""Seconds: a collector that asks Slurm may take this long (roles/metrics_collectors, its time limit of one command)."""
MAX_INTERVAL: Final = 60
"""Seconds: rates over 5 minutes need four readings (grafana.com/docs, `$__rate_interval`: four times the scrape interval)."""
MIN_RETENTION: Final = 2 * 3600
"""Seconds: Prometheus deletes blocks of two hours (prometheus.io/docs/prometheus/latest/storage)."""
MIN_SIZE: Final = 256 * 2**20
"""Bytes: two segments of the write-ahead log, of 128 MiB each (prometheus.io/docs/prometheus/latest/storage)."""


@rule("monitoring-node")
def monitoring_node_exists(case: RuleContext) -> Iterator[Violation]:
    """Prometheus and Alertmanager need a node that takes part."""
    declared = case.cluster.monitoring
    if not isinstance(declared, Monitoring):
        return
    name = monitoring_node(case.cluster)
    member = next((member for member in case.members if member.name == name), None)
    if name is None:
        yield Violation("monitoring", "no controller takes part that could run Prometheus", "set `monitoring.node` to a node")
    elif member is None:
        yield Violation("monitoring.node", f"there is no node `{name}`", did_you_mean(name, case.node_names))
    elif not member.is_in:
        yield Violation("monitoring.node", f"{name} is out", "set it to a node that takes part")


@rule("monitoring-power")
def monitoring_power(case: RuleContext) -> Iterator[Violation]:
    """A Prometheus on a node that power saving stops reads nothing while the node is stopped."""
    if case.slurm.power_saving is None or not isinstance(case.cluster.monitoring, Monitoring):
        return
    member = next((member for member in case.members if member.name == monitoring_node(case.cluster)), None)
    if member is not None and set(member.roles) == {Role.WORKER}:
        yield Violation("monitoring.node", f"power saving stops {member.name} when it is idle", "set it to a node that is no worker")


@rule("monitoring-os")
def monitoring_os(case: RuleContext) -> Iterator[Violation]:
    """Packages of other releases have other options, and none was tried."""
    if case.cluster.monitoring is None:
        return
    for system in sorted({case.cluster.target.os_of(member.name) for member in case.members} - {SUPPORTED_OS}):
        yield Violation("monitoring", f"monitoring of nodes with {system} is not implemented", f"use {SUPPORTED_OS} on all nodes")


@rule("monitoring-interval")
def monitoring_interval(case: RuleContext) -> Iterator[Violation]:
    """A collector must end before its next start, and a rate needs several readings."""
    declared = case.cluster.monitoring
    if declared and not MIN_INTERVAL <= declared.scrape_interval <= MAX_INTERVAL:
        cause = f"{format_seconds(declared.scrape_interval)} is not between {MIN_INTERVAL}s and {MAX_INTERVAL}s"
        yield Violation("monitoring.scrape_interval", cause, "use 15s")


@rule("monitoring-retention")
def monitoring_retention(case: RuleContext) -> Iterator[Violation]:
    """Smaller limits than a block or the write-ahead log cannot be kept."""
    declared = case.cluster.monitoring
    if not isinstance(declared, Monitoring):
        return
    if declared.retention.time < MIN_RETENTION:
        yield Violation("monitoring.retention.time", f"is shorter than {format_seconds(MIN_RETENTION)}", "use 15d")
    if declared.retention.size < MIN_SIZE:
        yield Violation("monitoring.retention.size", f"is smaller than {format_bytes(MIN_SIZE)}", "use 2GiB")
