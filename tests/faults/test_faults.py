"""Every check is seen to turn red by a fault of its own, and by that fault exactly it; taken back, all is green again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .conftest import Lab, chosen, told
from .rows import faults
from .score import SECONDS

FAULTS = faults()
SAMPLE = (
    "node.no_unit_has_failed",
    "access.strangers_are_refused",
    "slurm.node_is_usable",
    "gpu.count_matches_plan",
    "storage.is_mounted",
    "kubernetes.network_is_the_planned_one",
    "kubernetes.is_closed_to_this_machine",
    "control.secrets_are_encrypted",
)
"""For the run that every change must pass; `make faults` runs all."""


@pytest.mark.fault
@pytest.mark.timely
@pytest.mark.podman
@pytest.mark.parametrize(
    ("lab", "key"),
    [pytest.param(FAULTS[key].stack, key, id=key) for key in (FAULTS if chosen() == "all" else SAMPLE)],
    indirect=["lab"],
    scope="session",
)
def test_exactly_its_check_turns_red(lab: Lab, key: str, record_property: Any) -> None:
    fault = FAULTS[key]
    lacking = set(fault.spec.needs) - lab.declared.features
    if lacking:
        pytest.skip(f"this stack has no {', '.join(sorted(lacking))}")
    places = fault.nodes(lab.declared)
    done: list[str] = []
    try:
        for node in places:
            done.append(node)
            lab.do(node, fault.apply)
        began = time.monotonic()
        found = lab.look(fault.level)
        record_property(SECONDS, time.monotonic() - began)
    finally:
        for node in done:
            lab.do(node, fault.undo)
        lab.settle(done)
    failed = {id_ for id_, check in found.items() if check["verdict"] == "failed"}
    assert {id_ for id_ in failed if id_.split("[")[0] == key} == fault.must_turn_red(lab.declared), told(found.values())
    others = {id_: check for id_, check in found.items() if id_.split("[")[0] not in {key, *fault.may_turn_red}}
    assert not others, f"{key} also turned red:\n{told(others.values())}"
    healed = lab.look(fault.level)
    assert not healed, f"{key} was taken back, and yet:\n{told(healed.values())}"
