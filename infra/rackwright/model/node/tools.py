"""Diagnostic tools and benchmarks."""

from __future__ import annotations

from enum import StrEnum


class Tool(StrEnum):
    """Diagnostic tools and benchmarks that distributions or NVIDIA package. The acceptance test runs fio and HPCC if declared."""

    NVTOP = "nvtop"
    PERFTEST = "perftest"
    INFINIBAND_DIAGS = "infiniband-diags"
    NSIGHT_SYSTEMS = "nsight-systems"
    FIO = "fio"
    HPCC = "hpcc"
