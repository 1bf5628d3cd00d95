"""The phases of the acceptance, in order: each depends on the results of those before it."""

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
    "file_io",
    "hpcc",
)
"""Modules of this package; a phase's name is that of its module."""


IN_PODS: Final = ("kubernetes_health", *ORDER[1:])
"""The same for Kubernetes."""


def phases(*, in_pods: bool = False) -> tuple[Phase, ...]:
    """Return all phases, in order."""
    return tuple(import_module(f"{__name__}.{name}").PHASE for name in (IN_PODS if in_pods else ORDER))
