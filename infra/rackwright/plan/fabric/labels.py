"""Settings of Kubernetes and NCCL that follow from the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.slurm import domain_name, domains_of, pod_name, unit_name
from rackwright.plan.fabric.wiring import placements_of

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan, PlanNode

_LEAF: Final = "network.topology.nvidia.com/leaf"
_SPINE: Final = "network.topology.nvidia.com/spine"
_CORE: Final = "network.topology.nvidia.com/core"
_NVLINK: Final = "network.topology.nvidia.com/accelerator"
"""Label keys of NVIDIA's topograph 0.5, which topology-aware schedulers read."""
_RAILS: Final = "rackwright.fabric/rails"


def node_labels(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the labels of a whole plan."""
    return labels_of(plan.fabric, plan.nodes)


def labels_of(fabric: FabricPlan | None, nodes: Sequence[PlanNode]) -> dict[str, dict[str, str]]:
    """Return node -> labels: its shared units, and its number of rails. A node is on every rail, so no rail is a label."""
    if fabric is None:
        return {}
    domains = domains_of(fabric, nodes)
    found = {}
    for node, place in placements_of(fabric, nodes):
        labels = {_LEAF: unit_name(fabric, place // fabric.per_unit), _RAILS: str(fabric.rails)}
        if fabric.spines:
            labels[_SPINE] = pod_name(fabric.pod_of(place // fabric.per_unit)) if fabric.pods else "spine"
        if fabric.pods:
            labels[_CORE] = "core"
        if node in domains:
            labels[_NVLINK] = domain_name(domains[node])
        found[node] = dict(sorted(labels.items()))
    return found


def nccl(fabric: FabricPlan) -> dict[str, str]:
    """Return lines of nccl.conf that follow from the fabric. Few do: NCCL detects rails, GPUDirect and the GID.

    `NCCL_IB_HCA` is set where the nodes have other HCAs beside these (`=` means exactly: mlx5_1 alone would match mlx5_10, too).
    """
    return {"NCCL_IB_HCA": f"={','.join(fabric.hcas)}"} if fabric.named else {}
