"""Rails of virtual machines in the inventory: cards of nodes on the fabric, features of the plan, and roles of the image."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog.checks import Feature
from rackwright.inventory import Host, inventory, is_baked, paths, schema_errors
from rackwright.inventory.reader import from_inventory
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_stack


def plan_of(stack: str) -> Plan:
    """Return the plan of a committed stack."""
    cluster = load_stack(paths.stack_file(stack)).cluster
    assert cluster is not None
    return expand(cluster, stack)


def inventory_of(stack: str) -> dict[str, Any]:
    """Return the inventory of a committed stack with every node, each from the image."""
    plan = plan_of(stack)
    return inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", node.name) for node in plan.nodes})


def test_workers_have_a_card_for_each_rail() -> None:
    found = inventory_of("lab-vm")
    assert schema_errors(found) == []
    rails = {name: host["node"].get("rail_interfaces") for name, host in found["all"]["hosts"].items()}
    assert rails["login0"] is rails["storage0"] is None
    assert [(rail["name"], rail["device"], rail["address"], rail["prefix"], rail["mtu"]) for rail in rails["worker1"]] == [
        ("eth1", "rxe0", "198.18.0.25", 24, 4400),
        ("eth2", "rxe1", "198.18.1.25", 24, 4400),
    ]
    macs = [rail["mac"] for name in ("worker0", "worker1") for rail in rails[name]]
    assert len({*macs, *(node.mac for node in plan_of("lab-vm").nodes)}) == len(macs) + 4


@pytest.mark.parametrize(
    ("stack", "software", "rates"),
    [("lab-vm", True, False), ("lab", False, True), ("rack-h100", False, True), ("lab-vm-small", False, False)],
)
def test_rates_are_compared_where_ports_report_them(stack: str, software: bool, rates: bool) -> None:
    features = from_inventory(inventory_of(stack)).features
    assert (Feature.SOFTWARE_RDMA in features, Feature.LINK_RATES in features) == (software, rates)


def test_image_has_everything_that_rails_need() -> None:
    cluster = inventory_of("lab-vm")["all"]["vars"]["cluster"]
    assert "roce" in cluster["preinstalled_roles"] and is_baked(cluster)
