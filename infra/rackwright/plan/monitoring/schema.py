"""Plain data of monitoring: targets, and the units, mounts and collectors that each node is expected to report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.receivers import LeastSeverity

Collector = Literal["units", "slurm", "kubernetes", "etcd", "gpu", "ranks", "jobs", "fabric", "storage"]
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


class RemoteWriteTarget(ConfigModel):
    """A receiver of all metrics. Files are on the operator's machine."""

    name: str
    url: str
    username: str | None
    password_file: str | None
    token_file: str | None
    authority_file: str | None


class ScrapeTarget(ConfigModel):
    """An endpoint that Prometheus reads."""

    job: Literal["node", "prometheus", "alertmanager", "apiserver", "kubelet", "cadvisor"]
    """`cadvisor` is a path of the kubelet."""
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


class ExternalPrometheus(ConfigModel):
    """The site's Prometheus, as exporters, rendered files and checks know it."""

    sources: tuple[str, ...]
    """Networks from which it reads the exporters."""
    scrape_by: Literal["address", "name"]
    client_names: tuple[str, ...]
    """Alternative names of client certificates that the exporters accept."""
    client_authority: str | None
    """Authority of the site in PEM; None where the stack's own signs the client certificate."""
    certificate_file: str | None
    """Path of the client certificate on the site's machine; None where the stack's own is handed out."""
    key_file: str | None
    url: str | None
    """Base URL of its API; None where nothing may query it."""
    authority_file: str | None
    """File on the operator's machine with the authority of that URL; None for the system's."""
    token_file: str | None
    """File on the operator's machine with a bearer token for that URL."""


class MonitoringPlan(ConfigModel):
    """What is watched, by Prometheus and Alertmanager on one node or by a Prometheus of the site."""

    server: str | None
    """Node that runs Prometheus and Alertmanager; None where the site's Prometheus reads the exporters."""
    external: ExternalPrometheus | None = Field(default=None, exclude_if=lambda site: site is None)
    """The site's Prometheus; None where the cluster has its own."""
    interval_s: int
    retention_s: int | None
    """Age of the oldest metrics; None without an own Prometheus, as the next."""
    retention_mib: int | None
    receivers: tuple[Receiver, ...]
    deadman: Deadman | None = None
    remote_write: tuple[RemoteWriteTarget, ...] = Field(default=(), exclude_if=lambda receivers: not receivers)
    targets: tuple[ScrapeTarget, ...]
    nodes: tuple[MonitoredNode, ...]
    """Every node that takes part, in the plan's order."""
