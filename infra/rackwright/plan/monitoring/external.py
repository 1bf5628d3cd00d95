"""Monitoring by the site's Prometheus: the exporters, and who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rackwright.model.external_monitoring import ExternalMonitoring
from rackwright.plan.monitoring.schema import ExternalPrometheus, MonitoredNode, MonitoringPlan, ScrapeTarget

NODE_PORT: Final = 9100
"""Port of node_exporter: github.com/prometheus/prometheus/wiki/Default-port-allocations."""
CLIENT: Final = "prometheus"
"""Name of the stack's own client certificate (rackwright.targets.monitoring)."""


def node_targets(nodes: Sequence[MonitoredNode]) -> tuple[ScrapeTarget, ...]:
    """Return the exporters of the nodes."""
    return tuple(ScrapeTarget(job="node", node=node.name, port=NODE_PORT) for node in nodes)


def expand_external(declared: ExternalMonitoring, nodes: tuple[MonitoredNode, ...]) -> MonitoringPlan:
    """Return the plan of monitoring without a Prometheus of the cluster."""
    client, queried = declared.client, declared.prometheus
    return MonitoringPlan(
        server=None,
        external=ExternalPrometheus(
            sources=tuple(str(network) for network in declared.sources),
            scrape_by=declared.scrape_by.value,
            client_names=client.names if client else (CLIENT,),
            client_authority=client.authority if client else None,
            certificate_file=client.certificate_file if client else None,
            key_file=client.key_file if client else None,
            url=queried.url.rstrip("/") if queried else None,
            authority_file=queried.authority_file if queried else None,
            token_file=queried.token_file if queried else None,
        ),
        interval_s=declared.scrape_interval,
        retention_s=None,
        retention_mib=None,
        receivers=(),
        targets=node_targets(nodes),
        nodes=nodes,
    )
