"""Plain data of monitoring: targets, and the units, mounts and collectors that each node is expected to report."""

from __future__ import annotations

from typing import Literal

from rackwright.model.base import ConfigModel

Collector = Literal["units", "slurm", "gpu", "fabric", "storage"]
"""Subject of a program that writes metrics for node_exporter."""


class Receiver(ConfigModel):
    """A receiver of alerts."""

    name: str
    kind: Literal["webhook"]
    url_file: str
    """File on the operator's machine with the URL."""


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
    targets: tuple[ScrapeTarget, ...]
    nodes: tuple[MonitoredNode, ...]
    """Every node that takes part, in the plan's order."""
