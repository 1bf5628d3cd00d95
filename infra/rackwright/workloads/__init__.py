"""Workloads of a Kubernetes cluster, rendered from its plan as files for users to read, change and apply; `up` does not apply them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright.errors import InputError
from rackwright.plan.schema import Plan
from rackwright.workloads import batch, network, operators, queues, serving
from rackwright.workloads.site import Site

Object = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """A file that `rackwright workloads` prints."""

    title: str
    needs: tuple[str, ...]
    """Required add-ons, by their names in the catalogue."""
    made: Callable[[Site], Sequence[Object]]
    values: bool = False
    """Whether the file holds values of a Helm chart (the first of `needs`) instead of objects."""


WORKLOADS: Final[dict[str, Workload]] = {
    "priorities": Workload("PriorityClasses: service, batch and scavenger", (), batch.priorities),
    "jobset": Workload("A distributed PyTorch job over all GPUs, as a JobSet", ("jobset",), batch.jobset),
    "trainjob": Workload("A distributed PyTorch job, as a TrainJob of Kubeflow Trainer 2", ("trainer", "jobset"), batch.trainjob),
    "pytorchjob": Workload("A distributed PyTorch job, as a PyTorchJob of Kubeflow 1 (legacy)", ("training-operator",), batch.pytorchjob),
    "queues": Workload("Kueue queues: one for each namespace, with GPU borrowing", ("kueue",), queues.queues),
    "vllm": Workload("A model served by vLLM, with a Service and an autoscaler", ("vllm", "metrics-server"), serving.vllm),
    "vllm-autoscaler": Workload(
        "An autoscaler of that server by waiting requests, instead of the one by CPU; needs KEDA or prometheus-adapter",
        ("vllm",),
        serving.queue_autoscaler,
    ),
    "metallb": Workload("Load balancer addresses for Services on the cluster's network", ("metallb",), network.metallb),
    "rdma-plugin": Workload("Shared HCAs for pods", ("rdma-plugin",), network.rdma_plugin),
    "network-operator": Workload(
        "Shared HCAs for pods, with NVIDIA's network operator", ("network-operator",), operators.network_operator, values=True
    ),
    "gpu-operator": Workload(
        "NVIDIA's GPU operator for hosts with their own driver and toolkit", ("gpu-operator",), operators.gpu_operator, values=True
    ),
    "cilium": Workload("Cilium as the cluster's network, for `scheduler.cni_manifests`", ("cilium",), network.cilium, values=True),
    "efa-plugin": Workload("EFA interfaces for pods", ("efa-plugin",), operators.efa_plugin, values=True),
}


def render(plan: Plan, name: str, namespace: str | None = None) -> tuple[Object, ...]:
    """Return the objects of a workload; raise InputError if the cluster does not support it."""
    if name not in WORKLOADS:
        raise InputError(f"there is no workload `{name}`", hint=f"use one of {', '.join(WORKLOADS)}")
    return tuple(WORKLOADS[name].made(Site.of(plan, namespace)))
