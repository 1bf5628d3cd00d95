"""Every check is seen to turn red by a fault of its own, and by that fault exactly it; taken back, all is green again."""

from __future__ import annotations

import pytest

from .conftest import Lab, chosen, told
from .rows import faults

FAULTS = faults()
SAMPLE = (
    "node.no_unit_has_failed",
    "users.there_are_no_strangers",
    "sshd.running_server_wants_keys",
    "firewall.refuses_strangers",
    "access.strangers_are_refused",
    "munge.credentials_cross_nodes",
    "slurm.node_is_usable",
    "accounting.database_is_local",
    "gpu.count_matches_plan",
    "storage.is_mounted",
    "jobs.share_no_gpu",
)
"""One of each subject, for the run that every change must pass."""


@pytest.mark.fault
@pytest.mark.timely
@pytest.mark.podman
@pytest.mark.parametrize("key", FAULTS if chosen() == "all" else SAMPLE)
def test_exactly_its_check_turns_red(lab: Lab, key: str) -> None:
    fault = FAULTS[key]
    places = fault.nodes(lab.declared)
    done: list[str] = []
    try:
        for node in places:
            done.append(node)
            lab.do(node, fault.apply)
        found = lab.look(fault.level)
    finally:
        for node in done:
            lab.do(node, fault.undo)
    failed = {id_ for id_, check in found.items() if check["verdict"] == "failed"}
    others = {id_: check for id_, check in found.items() if id_.split("[")[0] not in {key, *fault.also}}
    assert not others, f"{key} also turned red:\n{told(others.values())}"
    assert {id_ for id_ in failed if id_.split("[")[0] == key} == fault.must_turn_red(lab.declared), told(found.values())
    healed = lab.look(fault.level)
    assert not healed, f"{key} was taken back, and yet:\n{told(healed.values())}"
