"""One node more costs the same in a rack as in a pair: counted in function calls, which no busy machine changes."""

from __future__ import annotations

import base64
import gc
import hashlib
import sys
from datetime import date
from typing import Any

import pytest

from rackwright import inventory, rules
from rackwright.inventory import Host, paths
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster
from rackwright.targets import hosts as target

_UNIT = 32
"""Nodes that share their leaves."""
_ROOM = "fabric-floor-room"
"""What rules say of two nodes in the one rack with workers: with two in each of the others, 256 do not find room."""


def key(name: str) -> str:
    """Return a fingerprint of the machine's own."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(name.encode()).digest()).decode().rstrip("=")


def described(workers: int) -> dict[str, Any]:
    """Stack rack-h100 with so many workers."""
    cluster: dict[str, Any] = yaml_reader.read(paths.stack_file("rack-h100"))[0]["config"]["rackwright:cluster"]
    cluster["groups"]["worker"]["count"] = workers
    others = {name: row for name, row in cluster["target"]["machines"].items() if not name.startswith("worker")}
    machines = {name: {**row, "host_key": key(name)} for name, row in others.items()}
    machines[f"worker[0-{workers - 1}]"] = {"address": "10.30.1.1", "rack": "r01"}
    machines |= {f"worker{index}": {"host_key": key(f"worker{index}")} for index in range(workers)}
    cluster["target"]["machines"] = machines
    return cluster


def calls(workers: int) -> int:
    """Function calls from the description to all that is handed over, ways in included."""
    data, counted = described(workers), 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    gc.disable()
    sys.setprofile(count)
    try:
        loaded = load_cluster(data, "rack")
        found = rules.check(loaded, date(2026, 12, 1))
        assert loaded.cluster is not None and {finding.rule for finding in found} <= {_ROOM}
        plan = expand(loaded.cluster, "rack")
        ways = {node.name: target.ssh_route(plan.target, node) for node in plan.nodes}  # type: ignore[arg-type]
        there = {name: Host(name, way["address"], "ssh-ed25519 AAAA", name) for name, way in ways.items()}
        assert plan.node("login0") and inventory.inventory(plan, there)
        inventory.ssh_config(plan, there)
        inventory.known_hosts(plan, there)
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted


@pytest.mark.parametrize("nodes", [64, 224])
def test_nodes_that_come_cost_no_more_than_in_a_small_cluster(nodes: int) -> None:
    """A scalable unit at a time: the first of its nodes brings eight leaves with their cables, the others bring their own alone."""
    calls(2)  # What is made once and kept.
    small, large = calls(2 + _UNIT) - calls(2), calls(nodes + _UNIT) - calls(nodes)
    assert large <= 1.5 * small, f"{small} calls for {_UNIT} nodes beside 2, {large} beside {nodes}"
