"""Instances that were stopped outside of rackwright."""

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
def test_running_or_deleted_instance_is_ignored(read):
    assert stopped_instances.differences([read], ()) == ()


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down"])
def test_stopped_instance_breaks_cluster(state):
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
def test_power_saving_is_expected_and_termination_is_not(state, category):
    (only,) = stopped_instances.differences([instance(state)], ("gpu0",))
    assert only.category is category
