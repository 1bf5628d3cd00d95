"""Kueue queues for a cluster whose add-ons are not managed by rackwright."""

from __future__ import annotations

from typing import Any

from rackwright.plan.kubernetes import queues as kubernetes_queues
from rackwright.workloads.site import Site

Object = dict[str, Any]


def queues(site: Site) -> list[Object]:
    """Return the objects that a stack with the add-on `kueue` gets, without the label by which the roles remove them."""
    assert site.workers  # render refuses a cluster without GPUs
    return list(kubernetes_queues.queues(site.cluster, site.plan.nodes))
