"""Plain data of monitoring: targets, and the units, mounts and collectors that each node is expected to report."""

from __future__ import annotations

from typing import Literal

from rackwright.model.base import ConfigModel
from rackwright.model.receivers import LeastSeverity

Collector = Literal["units", "slurm", "gpu", "fabric", "storage"]
"""Subject of a program that writes metrics for node_exporter."""


class Receiver(ConfigModel):
    """A receiver of alerts. Settings that its kind lacks are None."""

    name: str
    kind: Literal["webhook", "email", "slack", "pagerduty"]
    severity: LeastSeverity
    secret_file: str | None
    """File on the operator's machine with the URL, the key or the password."""
    to: tuple[str, ...] | None = None
    sender: str | None = None
    smarthost: str | None = None
    username: str | None = None
    require_tls: bool | None = None
    channel: str | None = None


class Deadman(ConfigModel):
    """The service that expects a message at an interval."""

    secret_file: str
    """File on the operator's machine with the URL."""
    interval_s: int


class ScrapeTarget(ConfigModel):
    """An endpoint that Prometheus reads."""

    job: Literal["node", "prometheus", "alertmanager"]
    node: str
    port: int


class MonitoredNode(ConfigModel):
    """What a node is expected to report. A collector writes 0 for each of these that is absent."""

    name: str
    collectors: tuple[Collector, ...]
    units: tuple[str, ...]
    mounts: tuple[str, ...]
    """Mount points of shared file systems."""
    gpus: int
    """Number of GPUs; 0 on a node without."""
    simulated_gpus: bool


class MonitoringPlan(ConfigModel):
    """Prometheus and Alertmanager on one node, and what they watch."""

    server: str
    """Node that runs both."""
    interval_s: int
    retention_s: int
    retention_mib: int
    receivers: tuple[Receiver, ...]
    deadman: Deadman | None = None
    targets: tuple[ScrapeTarget, ...]
    nodes: tuple[MonitoredNode, ...]
    """Every node that takes part, in the plan's order."""
