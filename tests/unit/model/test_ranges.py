"""One entry for machines that are alike, and what each of them has of its own."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.model import Cluster
from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster

_KEY = "SHA256:" + "A" * 43


def described(machines: dict[str, Any], **worker: Any) -> dict[str, Any]:
    """A cluster of one login node and three workers on these machines."""
    return {
        "target": {"kind": "hosts", "os": "debian-13", "machines": {"login0": {"address": "10.20.0.2", "host_key": _KEY}, **machines}},
        "network": {"cidr": "10.20.0.0/24"},
        "groups": {
            "login": {"count": 1, "cpus": 2, "memory": "2GiB"},
            "worker": {"count": 3, "cpus": 2, "memory": "2GiB", **worker},
        },
    }


def cluster(machines: dict[str, Any], **worker: Any) -> Cluster:
    """That cluster, its fields valid."""
    loaded = load_cluster(described(machines, **worker))
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def target(machines: dict[str, Any]) -> HostsTarget:
    """That cluster's target."""
    found = cluster(machines).target
    assert isinstance(found, HostsTarget)
    return found


def test_a_range_counts_its_addresses_up_and_shares_the_rest() -> None:
    each = target({"worker[0-2]": {"address": "10.20.0.11", "rack": "r1", "user": "admin"}}).machine_by_node
    assert {name: (str(machine.address), machine.rack, machine.user) for name, machine in each.items() if name != "login0"} == {
        "worker0": ("10.20.0.11", "r1", "admin"),
        "worker1": ("10.20.0.12", "r1", "admin"),
        "worker2": ("10.20.0.13", "r1", "admin"),
    }


@pytest.mark.parametrize("order", [1, -1])
def test_a_machine_s_own_entry_adds_to_its_range_in_any_order(order: int) -> None:
    """The engine hands mappings over sorted by key."""
    rows = {"worker[0-2]": {"address": "10.20.0.11", "rack": "r1"}, "worker1": {"host_key": _KEY, "rack": "r2"}}
    each = target(dict(list(rows.items())[::order])).machine_by_node
    assert (str(each["worker1"].address), each["worker1"].rack, each["worker1"].host_key) == ("10.20.0.12", "r2", _KEY)
    assert (each["worker2"].rack, each["worker2"].host_key) == ("r1", None)


def test_a_range_may_begin_anywhere() -> None:
    each = target({"worker0": {"address": "10.20.0.99"}, "worker[1-2]": {"address": "10.20.0.50"}}).machine_by_node
    assert [str(each[name].address) for name in ("worker0", "worker1", "worker2")] == ["10.20.0.99", "10.20.0.50", "10.20.0.51"]


def test_a_range_keeps_leading_zeros() -> None:
    machines = {"login0": {"address": "10.20.0.2"}, "node[008-009,011],r1n[01-02]": {"address": "10.20.0.50"}}
    each = target(machines).machine_by_node
    assert {name: str(machine.address) for name, machine in each.items() if name != "login0"} == {
        "node008": "10.20.0.50",
        "node009": "10.20.0.51",
        "node011": "10.20.0.52",
        "r1n01": "10.20.0.53",
        "r1n02": "10.20.0.54",
    }


def test_a_group_whose_name_ends_in_a_digit_counts_from_its_first_index() -> None:
    assert list(target({"a1[0-1]": {"address": "10.20.0.50"}}).machine_by_node)[:2] == ["a10", "a11"]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("worker[2-1]", "is not a range"),
        ("worker[0-9999]", "has too many machines"),
        ("worker[0-1],worker1", "`worker1` is listed twice"),
        ("worker[0-2", "is not a host list"),
        ("[0-2]", "`0` is not a DNS label"),
        ("Worker0", "neither a node name nor a range"),
    ],
)
def test_a_key_that_is_no_range_is_told_where_it_stands(key: str, says: str) -> None:
    (finding,) = load_cluster(described({key: {"address": "10.20.0.11"}})).findings
    assert (finding.rule, finding.path) == ("machine-name", f"target.machines.{key}")
    assert says in finding.cause and finding.hint


def test_what_is_wrong_in_a_range_is_said_once() -> None:
    (finding,) = load_cluster(described({"worker[0-2]": {"address": "10.20.0"}})).findings
    assert finding.path == "target.machines.worker[0-2].address"


def test_the_rack_of_a_machine_is_its_node_s_unless_group_or_node_say_another() -> None:
    machines = {"worker[0-2]": {"address": "10.20.0.11", "rack": "r1"}, "worker2": {"rack": "r2"}}
    plan = expand(cluster(machines), "rack")
    assert [node.rack for node in plan.nodes] == [None, "r1", "r1", "r2"]
    assert [node.rack for node in expand(cluster(machines, rack="r9"), "rack").nodes] == [None, "r9", "r9", "r9"]


def test_a_plan_with_ranges_is_the_same_after_the_wire() -> None:
    plan = expand(cluster({"worker[0-2]": {"address": "10.20.0.11"}}), "rack")
    assert type(plan).from_data(plan.to_data()) == plan
    assert plan.node("worker2").address == "10.20.0.13"
