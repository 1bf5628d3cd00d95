"""A cluster with monitoring, as a plan."""

from __future__ import annotations

from typing import Any

from rackwright.inventory import Host, inventory
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.model import Cluster
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster

LAB: dict[str, Any] = {
    "target": {"kind": "lab"},
    "network": {"cidr": "10.77.0.0/24"},
    "groups": {
        "login": {"count": 1, "roles": ["login", "controller", "accounting"]},
        "worker": {"count": 2, "gpus": {"model": "h100", "count": 8}},
        "storage": {"count": 1},
    },
    "storage": {"sharedfs": {"kind": "moosefs", "mount": "/mnt/sharedfs", "size": "5GiB"}},
    "fabric": {"kind": "infiniband", "subnet_manager": "login0"},
    "monitoring": {"kind": "builtin"},
}


def cluster(**changed: Any) -> Cluster:
    """Return the cluster with other keys."""
    loaded = load_cluster({key: value for key, value in {**LAB, **changed}.items() if value is not None})
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def monitored(**changed: Any) -> Plan:
    """Return the plan of the cluster with other keys."""
    return expand(cluster(**changed), "small")


def inventory_of(**changed: Any) -> dict[str, Any]:
    """Return the inventory of the cluster with other keys, every node existing."""
    plan = monitored(**changed)
    return inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", f"id-{node.name}") for node in plan.nodes})


def declared_of(**changed: Any) -> Inventory:
    """Return the inventory of the cluster with other keys, as commands and checks read it."""
    return from_inventory(inventory_of(**changed))
