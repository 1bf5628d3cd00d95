"""Networks of existing machines: declared bonds and VLANs in the inventory, and SSH over IPv6."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rackwright import inventory
from rackwright.inventory import Host
from rackwright.inventory.host import ssh_sources
from rackwright.inventory.reader import from_inventory
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster

BONDS = {
    "bond0": {"mode": "active-backup", "members": ["eno1", "eno2"]},
    "bond1": {"mode": "802.3ad", "members": ["a", "b", "a"], "min_links": 1},
}
VLANS = {"bond0.100": {"id": 100, "parent": "bond0"}}


def plan_of(machines: Mapping[str, Mapping[str, Any]], **more: Any) -> Plan:
    """Return the plan of two existing machines with these settings."""
    own = {"login0": {"address": "10.77.0.10"}, "worker0": {"address": "10.77.0.11"}}
    target = {
        "kind": "hosts",
        "os": "debian-13",
        "machines": {**own, **{name: {**own.get(name, {}), **one} for name, one in machines.items()}},
    }
    groups = {"login": {"count": 1, "roles": ["login", "controller"], "cpus": 2, "memory": "2GiB"}}
    groups |= {"worker": {"count": 1, "roles": ["worker"], "cpus": 2, "memory": "2GiB"}}
    cluster = {"target": {**target, **more.pop("target", {})}, "network": {"cidr": "10.77.0.0/24"}, "groups": groups}
    loaded = load_cluster({**cluster, "scheduler": {"kind": "slurm"}, **more})
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "site")


def hosts(plan: Plan, **addresses: str) -> dict[str, Host]:
    return {
        node.name: Host(node.name, addresses.get(node.name, node.address), "ssh-ed25519 AAAA", f"id-{node.name}") for node in plan.nodes
    }


def test_declared_links_are_in_the_records_that_declare_them() -> None:
    plan = plan_of({"worker0": {"bonds": BONDS, "vlans": VLANS}})
    written = inventory.inventory(plan, hosts(plan))
    assert inventory.schema_errors(written) == []
    records = {name: host["node"] for name, host in written["all"]["hosts"].items()}
    assert records["worker0"]["bonds"] == {
        "bond0": {"mode": "active-backup", "members": ["eno1", "eno2"], "min_links": 2},
        "bond1": {"mode": "802.3ad", "members": ["a", "b"], "min_links": 1},
    }
    assert records["worker0"]["vlans"] == VLANS
    assert not {"bonds", "vlans"} & set(records["login0"])
    read = from_inventory(written)
    assert {name: read.members(name) for name in ("@bonds", "@vlans")} == {"@bonds": ("worker0",), "@vlans": ("worker0",)}
    assert read.members("@existing_machines") == ("login0", "worker0")


def test_range_gives_its_machines_their_links() -> None:
    plan = plan_of({"worker[0-0]": {"bonds": BONDS}, "worker0": {"vlans": VLANS}})
    record = inventory.inventory(plan, hosts(plan))["all"]["hosts"]["worker0"]["node"]
    assert (set(record["bonds"]), set(record["vlans"])) == ({"bond0", "bond1"}, {"bond0.100"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bonds", {"bond0": {"mode": "lacp", "members": ["a", "b"], "min_links": 2}}),
        ("bonds", {"bond0": {"mode": "802.3ad", "members": ["a"], "min_links": 1}}),
        ("vlans", {"a-name-of-16-char": {"id": 1, "parent": "a"}}),
        ("vlans", {"v": {"id": 4095, "parent": "a"}}),
    ],
)
def test_contract_refuses_links_that_the_model_refuses(field: str, value: object) -> None:
    plan = plan_of({})
    written = inventory.inventory(plan, hosts(plan))
    written["all"]["hosts"]["worker0"]["node"][field] = value
    assert len(inventory.schema_errors(written)) == 1


def test_ssh_reaches_an_ipv6_address_by_the_name_of_the_node(tmp_path: Path) -> None:
    """known_hosts has names and no addresses, so that it needs neither brackets nor a port."""
    plan = plan_of({"login0": {"ssh_address": "2001:db8::10", "port": 2222}}, access={"allowed_cidrs": ["2001:db8::/32"]})
    reached = hosts(plan, login0="2001:db8::10")
    config = tmp_path / "ssh_config"
    config.write_text(
        inventory.ssh_config(plan, {**reached, "login0": Host("login0", "2001:db8::10", "ssh-ed25519 AAAA", "id", port=2222)})
    )
    shown = subprocess.run(["ssh", "-G", "-F", str(config), "login0"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"hostname 2001:db8::10", "port 2222", "hostkeyalias site-login0"} <= set(shown)
    assert inventory.known_hosts(plan, reached).splitlines()[0] == "site-login0 ssh-ed25519 AAAA"
    assert inventory.inventory(plan, reached)["all"]["hosts"]["login0"]["ansible_host"] == "login0"


def test_allowed_ipv6_networks_keep_the_contract() -> None:
    plan = plan_of({}, access={"allowed_cidrs": ["10.0.0.0/8", "2001:DB8:7::/64"]})
    written = inventory.inventory(plan, hosts(plan))
    assert written["all"]["vars"]["cluster"]["access"]["allow"] == ["10.0.0.0/8", "2001:db8:7::/64"]
    assert inventory.schema_errors(written) == []


def test_nodes_behind_a_jump_host_admit_its_address_only() -> None:
    networks = {"access": {"allowed_cidrs": ["10.0.0.0/8", "2001:db8:7::/64"]}}
    plan = plan_of({}, target={"jump_host": "login0"}, **networks)
    assert ssh_sources(plan, "login0") == ("10.0.0.0/8", "2001:db8:7::/64")
    assert ssh_sources(plan, "worker0") == ("10.77.0.10",)
    assert ssh_sources(plan_of({}, **networks), "worker0") == ("10.0.0.0/8", "2001:db8:7::/64")
