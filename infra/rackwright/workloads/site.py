"""Properties of the cluster that a workload is rendered for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from rackwright.errors import InputError
from rackwright.plan.kubernetes import queues
from rackwright.plan.kubernetes.queues import GPU, HOST, QUEUE
from rackwright.plan.kubernetes.schema import Kubernetes, KubernetesNode
from rackwright.plan.schema import Plan

RDMA: Final = "rdma/hca_shared_devices_a"
EFA: Final = "vpc.amazonaws.com/efa"


__all__ = ["EFA", "GPU", "HOST", "QUEUE", "RDMA", "Site"]


@dataclass(frozen=True)
class Site:
    """A plan of a Kubernetes cluster, and the namespace that the workload is for."""

    plan: Plan
    cluster: Kubernetes
    namespace: str

    @classmethod
    def of(cls, plan: Plan, namespace: str | None) -> Self:
        """Return the plan with the namespace, by default the users' first one, else Kubernetes' own default."""
        cluster = plan.scheduler
        if not isinstance(cluster, Kubernetes):
            raise InputError(
                f"stack {plan.stack} runs {cluster.kind}", hint="declare `scheduler: {kind: kubernetes}`: workloads require Kubernetes"
            )
        known = [one.name for one in cluster.namespaces]
        if namespace is not None and namespace not in known:
            raise InputError(f"stack {plan.stack} has no namespace `{namespace}`", hint=f"known: {', '.join(known) or 'none is declared'}")
        return cls(plan, cluster, namespace or (known[0] if known else "default"))

    @cached_property
    def workers(self) -> tuple[KubernetesNode, ...]:
        """Return nodes with GPUs that run users' pods."""
        found = queues.workers(self.cluster)
        if not found:
            raise InputError(f"stack {self.plan.stack} has no GPUs for pods", hint="add `gpus` to a group of workers")
        return found

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that every worker has."""
        return min(node.gpus for node in self.workers)

    @property
    def pods(self) -> int:
        """Return the number of whole nodes for a job of the namespace: all, or as many as its GPU quota allows."""
        quota = next((one.gpus for one in self.cluster.namespaces if one.name == self.namespace), None)
        return len(self.workers) if quota is None else max(1, min(len(self.workers), quota // self.gpus))

    @property
    def products(self) -> tuple[str, ...]:
        """Return the product names of the GPUs, as in node labels."""
        return queues.products(self.workers)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return labels of topology levels, the widest first."""
        return queues.levels(self.workers)

    @property
    def rdma(self) -> dict[str, str]:
        """Return a pod's request for RDMA devices; empty if the fabric is simulated or there is none."""
        if self.plan.target.kind == "aws":
            return {EFA: "1"}
        fabric = self.plan.fabric
        return {RDMA: "1"} if fabric is not None and "fabric" not in self.plan.simulated else {}

    @property
    def denies_traffic(self) -> bool:
        """Return whether pods of other namespaces cannot reach those of the namespace unless a policy admits them."""
        return self.cluster.network.enforces_network_policy and any(one.name == self.namespace for one in self.cluster.namespaces)

    @property
    def shared(self) -> bool:
        """Return whether the namespace has a claim on the shared file system."""
        return any(one.name == self.namespace and one.claim_mib is not None for one in self.cluster.namespaces)
