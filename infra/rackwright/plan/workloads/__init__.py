"""Workloads of a Kubernetes cluster, rendered from its plan as files for people to read, change and apply: nothing applies them here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright.errors import BadInput
from rackwright.plan.shape import Plan
from rackwright.plan.workloads import batch, network, operators, queues, serving
from rackwright.plan.workloads.site import Site

Object = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """A file that can be asked for."""

    title: str
    needs: tuple[str, ...]
    """Addons that must be there before it, by their names in the catalogue."""
    made: Callable[[Site], Sequence[Object]]
    values: bool = False
    """Whether it is values of a Helm chart, the first of `needs`, rather than objects."""


WORKLOADS: Final[dict[str, Workload]] = {
    "priorities": Workload("PriorityClasses: service, batch, and batch that makes room", (), batch.priorities),
    "jobset": Workload("A distributed PyTorch job over all GPUs, as a JobSet", ("jobset",), batch.jobset),
    "trainjob": Workload("The same as a TrainJob of Kubeflow Trainer 2", ("trainer", "jobset"), batch.trainjob),
    "pytorchjob": Workload("The same as a PyTorchJob of Kubeflow 1, for who has it still", ("training-operator",), batch.pytorchjob),
    "queues": Workload("Queues of Kueue: one for each namespace, GPUs lent between them", ("kueue",), queues.queues),
    "vllm": Workload("A model served by vLLM, with a Service and an autoscaler", ("vllm", "metrics-server"), serving.vllm),
    "metallb": Workload("Addresses for Services, answered on the cluster's own network", ("metallb",), network.metallb),
    "rdma-plugin": Workload("HCAs for pods, shared", ("rdma-plugin",), network.rdma_plugin),
    "network-operator": Workload("The same by NVIDIA's network operator", ("network-operator",), operators.network_operator, values=True),
    "gpu-operator": Workload(
        "NVIDIA's GPU operator where the host owns driver and toolkit", ("gpu-operator",), operators.gpu_operator, values=True
    ),
    "cilium": Workload("Cilium as this cluster's network, for `scheduler.manifests`", ("cilium",), network.cilium, values=True),
    "efa-plugin": Workload("EFA interfaces for pods", ("efa-plugin",), operators.efa_plugin, values=True),
}


def render(plan: Plan, name: str, namespace: str | None = None) -> tuple[Object, ...]:
    """The objects of a workload; BadInput where it makes no sense on that cluster."""
    if name not in WORKLOADS:
        raise BadInput(f"there is no workload `{name}`", hint=f"use one of {', '.join(WORKLOADS)}")
    return tuple(WORKLOADS[name].made(Site.of(plan, namespace)))
