"""Kueue queues for a cluster whose add-ons are not managed by rackwright."""

from __future__ import annotations

from typing import Any

from rackwright.plan.kubernetes import queues as kubernetes_queues
from rackwright.workloads.site import Site

Object = dict[str, Any]


def queues(site: Site) -> list[Object]:
    """The objects that a stack with the addon `kueue` is given, without the label by which its roles take them away again."""
    assert site.workers  # a cluster without GPUs is refused with words
    return list(kubernetes_queues.queues(site.cluster, site.plan.nodes))
