"""Inventory groups: the stack's own, one per role, one per feature. A node that is out is in `out` alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rackwright.catalog import AMD, NVIDIA, gpus
from rackwright.catalog.compatibility import has_nvlink_rack
from rackwright.derive.fabric import domains_of
from rackwright.derive.monitoring import monitoring_node
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.plan.kubernetes.cluster import CARRIES
from rackwright.plan.monitoring.expand import monitoring_groups
from rackwright.plan.node_features import PARTS
from rackwright.plan.schema import NodeGpu, PlanNode, Storage

SCHEDULED: Final = frozenset({Role.LOGIN, Role.CONTROLLER, Role.ACCOUNTING, Role.WORKER})
"""Roles whose nodes run munge and Slurm."""


def expand_groups(cluster: Cluster, nodes: Sequence[PlanNode], storage: Sequence[Storage]) -> dict[str, tuple[str, ...]]:
    """Return every group that playbooks and checks may address, empty ones too: a feature is on if its group has hosts."""
    slurm = cluster.scheduler.kind == "slurm"
    clients = {name for declared in storage for name in declared.clients}
    members: dict[str, Callable[[PlanNode], bool]] = {"nodes": lambda node: True}
    members |= {name: lambda node, name=name: node.group == name for name in cluster.groups}  # type: ignore[misc]
    members |= {f"role_{role}": lambda node, role=role: role in node.roles for role in _roles(nodes)}  # type: ignore[misc]
    members |= {
        "smt": lambda node: node.threads_per_core is not None,
        "gpu": lambda node: _vendor(node) == NVIDIA,
        "gpu_whole": lambda node: _vendor(node) == NVIDIA and node.gpus is not None and not any(node.gpus.mig) and not node.gpus.others,
        "amd_gpu": lambda node: _vendor(node) == AMD,
        "amd_software": lambda node: _gets_rocm(cluster, node),
        "amd_xgmi": lambda node: node.gpus is not None and node.gpus.count > 1 and gpus()[node.gpus.model].xgmi,
        "mig": lambda node: node.gpus is not None and any(node.gpus.mig),
        "gpu_software": lambda node: _gets_software(cluster, node),
        "nvswitch": lambda node: _gets_software(cluster, node) and node.gpus is not None and node.gpus.nvswitch,
        "nvlink_rack": lambda node: _gets_software(cluster, node) and node.gpus is not None and has_nvlink_rack(gpus()[node.gpus.model]),
        "nvlink_domain": lambda node: slurm and _gets_software(cluster, node) and _is_in_nvlink_domain(cluster, node),
        "nvlink": lambda node: _gets_software(cluster, node) and node.gpus is not None and _has_nvlinks(node.gpus),
        "fabric": lambda node: bool(node.rails),
        "neuron": lambda node: node.neuron_devices > 0,
        "storage_client": lambda node: node.name in clients,
        "slurm": lambda node: slurm and bool(SCHEDULED.intersection(node.roles)),
        "kubernetes": lambda node: not slurm and bool(CARRIES.intersection(node.roles)),
        "kube_control_plane": lambda node: not slurm and Role.CONTROLLER in node.roles,
        "kubernetes_worker": lambda node: not slurm and Role.WORKER in node.roles,
        "kubernetes_login": lambda node: not slurm and Role.LOGIN in node.roles,
    }
    members |= {f"with_{part}": lambda node, part=part: part in node.features for part in PARTS}  # type: ignore[misc]
    if any(node.gpus and node.gpus.others for node in nodes):  # plans that are up were recorded without the group
        members["gpu_mixed"] = lambda node: node.gpus is not None and bool(node.gpus.others)
    here = [node for node in nodes if node.is_in]
    groups = {group: tuple(node.name for node in here if belongs(node)) for group, belongs in members.items()}
    groups |= monitoring_groups(cluster.monitoring, monitoring_node(cluster), nodes)
    return groups | {"out": tuple(node.name for node in nodes if not node.is_in)}


def _roles(nodes: Sequence[PlanNode]) -> list[Role]:
    """Return the roles that have a group: that of runners only where a node has it, because plans that are up were recorded without it."""
    return [role for role in Role if role is not Role.RUNNER or any(role in node.roles for node in nodes)]


def _has_nvlinks(declared: NodeGpu) -> bool:
    """Return whether all NVLinks of the node's GPUs are in use: those to NVSwitches are, except on A100 with MIG.

    Source: NVIDIA, Fabric Manager User Guide, Interoperability With Multi-Instance GPUs (2026).
    Where all GPUs are divided, nvidia-smi lists no links (driver 590).
    Links between GPUs depend on the board, and links of a part of a board on the hypervisor.
    """
    switched = declared.nvswitch or has_nvlink_rack(gpus()[declared.model])
    divided = any(declared.mig) if declared.architecture == "ampere" else bool(declared.mig) and all(declared.mig)
    return switched and not divided


def _is_in_nvlink_domain(cluster: Cluster, node: PlanNode) -> bool:
    """Return whether NVLink joins the node's GPUs to those of other nodes, and the stack file declares how many nodes are one domain."""
    declared = cluster.fabric
    joined = node.gpus is not None and has_nvlink_rack(gpus()[node.gpus.model])
    return joined and declared is not None and node.group in domains_of(cluster, declared)


def _vendor(node: PlanNode) -> str | None:
    """Return the vendor of the node's GPUs."""
    return node.gpus.vendor if node.gpus else None


def _gets_rocm(cluster: Cluster, node: PlanNode) -> bool:
    """Return whether the role rocm installs driver and ROCm on the node."""
    return cluster.software is not None and cluster.software.rocm is not None and _vendor(node) == AMD


def _gets_software(cluster: Cluster, node: PlanNode) -> bool:
    """Return whether the roles install NVIDIA's driver and software on the node: simulated GPUs have none."""
    return cluster.software is not None and node.gpus is not None and node.gpus.vendor == NVIDIA and not node.gpus.simulated
