"""Monitoring: Prometheus and Alertmanager on one node, exporters on all nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.external_monitoring import ExternalMonitoring
from rackwright.model.names import Label
from rackwright.model.receivers import DeadmanSwitch, Receiver
from rackwright.model.remote_write import RemoteWrite
from rackwright.model.units import Bytes, Seconds
from rackwright.model.update_policy import UpdatePolicy


class MetricsRetention(ConfigModel):
    """Limits of the stored metrics; the first that is reached deletes the oldest."""

    time: Annotated[Seconds, UpdatePolicy.RESTART] = Field(default=15 * 86400, description="Age of the oldest metrics. Default: 15d.")
    size: Annotated[Bytes, UpdatePolicy.RESTART] = Field(default=2 * 2**30, description="Disk space of the metrics. Default: 2GiB.")


class Monitoring(ConfigModel):
    """Prometheus and Alertmanager on a node of the cluster, exporters and collectors on all nodes."""

    kind: Annotated[Literal["builtin"], UpdatePolicy.FORBIDDEN] = Field(
        description="`builtin`: Prometheus and Alertmanager run on a node of the cluster."
    )
    node: Annotated[Label | None, UpdatePolicy.FORBIDDEN] = Field(
        default=None, description="Node that runs Prometheus and Alertmanager. Default: the first controller."
    )
    scrape_interval: Annotated[Seconds, UpdatePolicy.RESTART] = Field(
        default=15, description="Time between two readings of every metric. Default: 15s."
    )
    retention: MetricsRetention = Field(default=MetricsRetention(), description="Limits of the stored metrics.")
    receivers: Annotated[dict[Label, Receiver], UpdatePolicy.RESTART] = Field(
        default={}, description="Receivers of alerts, by name; each gets every alert of its severities."
    )
    deadman: Annotated[DeadmanSwitch | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Service that tells people when alerting stops. Default: none; only a look from outside notices it then."
    )
    remote_write: Annotated[dict[Label, RemoteWrite], UpdatePolicy.RESTART] = Field(
        default={}, description="Receivers of all metrics by remote write, by name."
    )


DeclaredMonitoring = Annotated[Monitoring | ExternalMonitoring, Field(discriminator="kind")]
