"""Instances that somebody stopped."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.drift import stopped_instances
from rackwright.drift.difference import Category, Layer


def instance(state: str | None, op: str = "same") -> dict[str, Any]:
    token = "aws:ec2/instance:Instance"
    new = {"id": "i-1", "inputs": {}, "outputs": {"instanceState": state} if state else {}}
    metadata = {
        "op": op,
        "type": token,
        "urn": f"urn:pulumi:x::rackwright::{token}::gpu0",
        "old": new,
        "new": None if op == "delete" else new,
    }
    return {"resOutputsEvent": {"metadata": metadata}}


@pytest.mark.parametrize("read", [instance("running"), instance("pending"), instance(None), instance("stopped", op="delete")])
def test_one_that_runs_or_is_gone_is_no_matter_of_its_state(read):
    assert stopped_instances.differences([read], ()) == ()


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down"])
def test_one_that_somebody_stopped_breaks_the_cluster(state):
    (only,) = stopped_instances.differences([instance(state)], ("gpu1",))
    assert (only.layer, only.node, only.subject, only.live, only.category) == (
        Layer.RESOURCES,
        "gpu0",
        "instance.status",
        state,
        Category.BREAKING,
    )
    assert "start-instances --instance-ids i-1" in only.remedy


@pytest.mark.parametrize(
    ("state", "category"), [("stopped", Category.EXPECTED), ("stopping", Category.EXPECTED), ("shutting-down", Category.BREAKING)]
)
def test_one_that_saves_power_is_expected_and_one_that_comes_to_its_end_is_not(state, category):
    (only,) = stopped_instances.differences([instance(state)], ("gpu0",))
    assert only.category is category
