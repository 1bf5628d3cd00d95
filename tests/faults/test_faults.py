"""Every check fails on a fault of its own, and no other check does; after the fault's removal all checks pass."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import chosen
from .fault_table import faults
from .lab import Lab
from .score import SECONDS

FAULTS = faults()
SAMPLE = (
    "node.no_failed_units",
    "access.blocks_external",
    "slurm.node_is_usable",
    "gpu.count_matches_plan",
    "storage.is_mounted",
)
"""For the run that every change must pass (those of Kubernetes: tests/e2e/kubernetes/test_lab.py); `make faults` runs all."""


@pytest.mark.fault
@pytest.mark.podman
@pytest.mark.parametrize(
    ("lab", "key"),
    [pytest.param(FAULTS[key].stack, key, id=key) for key in (FAULTS if chosen() == "all" else SAMPLE)],
    indirect=["lab"],
    scope="session",
)
def test_fault_fails_exactly_its_check(lab: Lab, key: str, record_property: Any) -> None:
    fault = FAULTS[key]
    lacking = set(fault.spec.needs) - lab.declared.features
    if lacking:
        pytest.skip(f"this stack has no {', '.join(sorted(lacking))}")
    record_property(SECONDS, lab.turns_red_by(fault))
