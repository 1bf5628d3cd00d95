"""Nodes whose GPUs share the NVLink of a rack get the addresses of their domain, for IMEX."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog.checks import Feature
from rackwright.inventory import Host, inventory, schema_errors
from rackwright.inventory.reader import from_inventory
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster


def built(gpus: dict[str, Any] | None = None, fabric: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the inventory of a login node and five workers, two of them to a domain."""
    names = ["login0", *(f"worker{index}" for index in range(5))]
    machines = {
        name: {"address": f"192.0.2.{10 + index}", "os": "ubuntu-24.04", "host_key": "ssh-ed25519 AAAA"} for index, name in enumerate(names)
    }
    described = {
        "target": {"kind": "hosts", "os": "ubuntu-24.04", "user": "root", "machines": machines},
        "network": {"cidr": "192.0.2.0/24"},
        "access": {"allowed_cidrs": ["198.51.100.0/24"]},
        "groups": {
            "login": {"count": 1, "roles": ["login", "controller"], "cpus": 8, "memory": "16GiB"},
            "worker": {"count": 5, "cpus": 144, "memory": "960GiB", "gpus": gpus or {"model": "gb200", "count": 4}},
        },
        "fabric": {"groups": ["worker"], "nvlink_domain": 2} if fabric is None else fabric,
        "software": {"profile": "2026-lts-arm64"},
        **more,
    }
    loaded = load_cluster(described, "rack")
    assert loaded.cluster is not None, loaded.findings
    plan = expand(loaded.cluster, "rack")
    return inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", "life-1") for node in plan.nodes})


def lists(found: dict[str, Any]) -> dict[str, Any]:
    """Return the last bytes of the addresses by node."""
    listed = {name: host["node"].get("imex_nodes") for name, host in found["all"]["hosts"].items()}
    return {name: [int(one.rpartition(".")[2]) for one in addresses] for name, addresses in listed.items() if addresses is not None}


def test_each_node_gets_the_list_of_its_domain() -> None:
    found = built()
    assert schema_errors(found) == []
    assert lists(found) == {"worker0": [11, 12], "worker1": [11, 12], "worker2": [13, 14], "worker3": [13, 14], "worker4": [15]}
    assert set(found["all"]["children"]["nvlink_domain"]["hosts"]) == {f"worker{index}" for index in range(5)}
    assert Feature.NVLINK_DOMAIN in from_inventory(found).features


def test_node_that_is_out_stays_in_the_list() -> None:
    found = built(nodes={"worker1": {"state": "out", "reason": "tray is at the maker"}})
    assert lists(found)["worker0"] == [11, 12] and "worker1" not in lists(found)


@pytest.mark.parametrize(
    "more",
    [
        {"fabric": {"groups": ["worker"]}},
        {"gpus": {"model": "h100", "count": 8}, "software": {"profile": "2026-lts"}},
        {"scheduler": {"kind": "kubernetes"}},
    ],
    ids=["domain-not-declared", "no-rack", "kubernetes"],
)
def test_other_nodes_have_no_list(more: dict[str, Any]) -> None:
    found = built(**more)
    assert lists(found) == {} and found["all"]["children"]["nvlink_domain"]["hosts"] == {}
    assert Feature.NVLINK_DOMAIN not in from_inventory(found).features
