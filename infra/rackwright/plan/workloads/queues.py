"""Queues of Kueue: each namespace has what its quota says, and what others do not use. docs/adr/0020 says why Kueue."""

from __future__ import annotations

from typing import Any, Final

from rackwright.plan.workloads.site import GPU, PRODUCT, Site

Object = dict[str, Any]
_API: Final = "kueue.x-k8s.io/v1beta2"
_COHORT: Final = "cluster"
_SPARE: Final = "spare"


def queues(site: Site) -> list[Object]:
    """The topology, a flavor for each kind of GPU, a queue for each namespace, and one that owns what nobody does, to lend it."""
    names = [one.name for one in site.cluster.namespaces]
    owned = {one.name: one.gpus or 0 for one in site.cluster.namespaces}
    spare = max(sum(node.gpus for node in site.workers) - sum(owned.values()), 0)
    return [
        _object("Topology", "fabric", {"levels": [{"nodeLabel": level} for level in site.levels]}),
        *(_flavor(product) for product in site.products),
        *(_cluster_queue(site, one.name, one.gpus or 0, ends=one.gpus is not None) for one in site.cluster.namespaces),
        *([_cluster_queue(site, _SPARE, spare)] if spare and _SPARE not in names else []),
        *(_object("LocalQueue", name, {"clusterQueue": name}, namespace=name) for name in names),
    ]


def _flavor(product: str) -> Object:
    labels = {PRODUCT: product}
    return _object("ResourceFlavor", product.lower(), {"nodeLabels": labels, "topologyName": "fabric"})


def _cluster_queue(site: Site, name: str, gpus: int, *, ends: bool = False) -> Object:
    """GPUs are what is shared out; CPUs and memory are all there are, in every queue, so that they hold nobody up.

    `ends`: the namespace's quota allows no more. A job that borrowed beyond it would start some of its pods and wait for ever for the rest.
    """
    limit = {"borrowingLimit": "0"} if ends else {}
    nodes = {node.name: node for node in site.plan.nodes}
    there = [nodes[worker.name] for worker in site.workers]
    totals = {"cpu": str(sum(node.cpus for node in there)), "memory": f"{sum(node.memory_mib for node in there)}Mi"}
    first, *others = site.products
    flavors = [
        {
            "name": product.lower(),
            "resources": [
                {"name": GPU, "nominalQuota": str(gpus if product == first else 0), **limit},
                *({"name": key, "nominalQuota": total} for key, total in totals.items()),
            ],
        }
        for product in (first, *others)
    ]
    return _object(
        "ClusterQueue",
        name,
        {
            "cohortName": _COHORT,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [GPU, *totals], "flavors": flavors}],
        },
    )


def _object(kind: str, name: str, spec: Object, namespace: str | None = None) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
