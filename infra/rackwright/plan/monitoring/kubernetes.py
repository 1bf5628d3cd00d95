"""Endpoints of Kubernetes that Prometheus reads itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rackwright.model.groups import Role
from rackwright.plan.kubernetes.cluster import API_PORT, CARRIES
from rackwright.plan.monitoring.schema import ScrapeTarget
from rackwright.plan.schema import PlanNode

KUBELET_PORT: Final = 10250
"""Port of the kubelet (kubernetes.io/docs/reference/networking/ports-and-protocols)."""


def kubernetes_targets(nodes: Sequence[PlanNode]) -> Iterator[ScrapeTarget]:
    """Yield the API servers, and the kubelets with their cAdvisor."""
    for node in nodes:
        if Role.CONTROLLER in node.roles:
            yield ScrapeTarget(job="apiserver", node=node.name, port=API_PORT)
        if CARRIES & set(node.roles):
            yield ScrapeTarget(job="kubelet", node=node.name, port=KUBELET_PORT)
            yield ScrapeTarget(job="cadvisor", node=node.name, port=KUBELET_PORT)
