"""Queues of Kueue: each namespace has its quota, and what others leave unused. docs/adr/0020 has the reasons for Kueue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rackwright.plan.kubernetes.schema import Kubernetes, KubernetesNode
from rackwright.plan.schema import PlanNode

Object = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
HOST: Final = "kubernetes.io/hostname"
LEAF: Final = "network.topology.nvidia.com/leaf"
NVLINK: Final = "network.topology.nvidia.com/accelerator"
PRODUCT: Final = "nvidia.com/gpu.product"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
API: Final = "kueue.x-k8s.io/v1beta2"
COHORT: Final = "cluster"
SPARE: Final = "spare"


def queues(cluster: Kubernetes, nodes: Sequence[PlanNode], labels: dict[str, str] | None = None) -> tuple[Object, ...]:
    """Return the topology, a flavor for each GPU model, a queue for each namespace, and a queue that lends the unassigned GPUs.

    Empty without GPUs for pods. `labels`: labels of every object.
    """
    there = workers(cluster)
    if not there:
        return ()
    names = [one.name for one in cluster.namespaces]
    spare = max(sum(node.gpus for node in there) - sum(one.gpus or 0 for one in cluster.namespaces), 0)
    owners = [(one.name, one.gpus or 0, one.gpus is not None) for one in cluster.namespaces]
    owners += [(SPARE, spare, False)] if spare and SPARE not in names else []
    made = (
        _object("Topology", "fabric", {"levels": [{"nodeLabel": level} for level in levels(there)]}),
        *(_flavor(product) for product in products(there)),
        *(_object("ClusterQueue", name, _shares(there, nodes, name, gpus, ends=ends)) for name, gpus, ends in owners),
        *(_object("LocalQueue", name, {"clusterQueue": name}, namespace=name) for name in names),
    )
    for one in made if labels else ():
        one["metadata"]["labels"] = dict(labels or {})
    return made


def workers(cluster: Kubernetes) -> tuple[KubernetesNode, ...]:
    """Return nodes with GPUs that run users' pods."""
    return tuple(node for node in cluster.nodes if node.runs_workloads and node.gpus)


def products(there: Sequence[KubernetesNode]) -> tuple[str, ...]:
    """Return the names of their GPUs, as in the labels."""
    return tuple(dict.fromkeys(node.labels[PRODUCT] for node in there if PRODUCT in node.labels))


def levels(there: Sequence[KubernetesNode]) -> tuple[str, ...]:
    """Return the topology labels, widest first."""
    return (*(label for label in (LEAF, NVLINK) if all(label in node.labels for node in there)), HOST)


def _flavor(product: str) -> Object:
    labels = {PRODUCT: product}
    return _object("ResourceFlavor", product.lower(), {"nodeLabels": labels, "topologyName": "fabric"})


def _shares(there: Sequence[KubernetesNode], nodes: Sequence[PlanNode], name: str, gpus: int, *, ends: bool) -> Object:
    """Return the quota of GPUs; every queue has all CPUs and memory, so that they never block a job.

    `ends`: the namespace's quota allows no more. A job that borrowed beyond it would start some of its pods and wait forever for the rest.
    """
    limit = {"borrowingLimit": "0"} if ends else {}
    known = {node.name: node for node in nodes}
    theirs = [known[worker.name] for worker in there]
    totals = {"cpu": str(sum(node.cpus for node in theirs)), "memory": f"{sum(node.memory_mib for node in theirs)}Mi"}
    first, *others = products(there)
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
    return {
        "cohortName": COHORT,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": [GPU, *totals], "flavors": flavors}],
    }


def _object(kind: str, name: str, spec: Object, namespace: str | None = None) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
