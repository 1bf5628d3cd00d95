"""A cluster with monitoring, as a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2

from rackwright.inventory import Host, inventory
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.model import Cluster
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster

ALERTMANAGER = Path(__file__).parents[2] / "roles" / "alertmanager" / "templates" / "etc" / "prometheus"
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


def render_alertmanager(receivers: dict[str, Any], deadman: dict[str, Any] | None) -> str:
    """Return the file as the role writes it: Ansible removes the newline after a block."""
    plan = monitored(monitoring={"kind": "builtin", "receivers": receivers, "deadman": deadman}).monitoring
    assert plan is not None
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["to_json"] = json.dumps
    given = plan.model_dump(mode="json")
    template = environment.from_string((ALERTMANAGER / "alertmanager.yml.j2").read_text(encoding="utf-8"))
    return template.render(alertmanager_receivers=given["receivers"], alertmanager_deadman=given["deadman"])
