"""The phases of the acceptance, in their order: each stands on what those before it have shown."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from rackwright.checks.acceptance.phase import Phase

ORDER: Final = (
    "slurm_health",
    "shared_file_system",
    "task_placement",
    "gpu_allocation",
    "infiniband",
    "nccl",
    "gpu",
    "rdma",
    "storage_performance",
    "cpu",
)
"""Modules of this package; a phase's name is its module's."""


IN_PODS: Final = ("kubernetes_health", *ORDER[1:])
"""The same where Kubernetes runs the jobs."""


def phases(*, in_pods: bool = False) -> tuple[Phase, ...]:
    """All of them, in order."""
    return tuple(import_module(f"{__name__}.{name}").PHASE for name in (IN_PODS if in_pods else ORDER))
