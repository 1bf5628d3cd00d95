"""Diagnostic tools."""

from __future__ import annotations

from enum import StrEnum


class Tool(StrEnum):
    """Diagnostic tools that distributions or NVIDIA package."""

    NVTOP = "nvtop"
    PERFTEST = "perftest"
    INFINIBAND_DIAGS = "infiniband-diags"
    NSIGHT_SYSTEMS = "nsight-systems"
