"""Target `hosts` under mocks: nothing is created, each machine is adopted as planned."""

from __future__ import annotations

import pytest
from recording import built, committed

from rackwright.provider import registry


def test_hosts_stack_registers_one_host_per_node() -> None:
    plan = committed("budget-vms")
    made = built(plan).made
    expected = {
        "access-key": "rackwright:secret:SshKeyPair",
        **dict.fromkeys((node.name for node in plan.nodes), "rackwright:hosts:Host"),
        "converge": "rackwright:ansible:Converge",
        "verification": "rackwright:test:Verification",
    }
    assert {name: typ for name, (typ, _) in made.items()} == expected


def test_worker_host_has_jump_host_and_declared_facts() -> None:
    given = {
        name: value for name, value in built(committed("budget-vms")).of("rackwright:hosts:Host")["worker0"].items() if value is not None
    }
    login = {"name": "login0", "address": "203.0.113.10", "port": 22, "user": "admin", "host_key": "SHA256:" + "0" * 43}
    assert given == {
        "stack": "budget-vms",
        "name": "worker0",
        "address": "10.20.0.3",
        "port": 22,
        "user": "admin",
        "host_key": "SHA256:" + "1" * 43,
        "via": login,
        "authorized_key": "ssh-ed25519 AAAA",
        "os": "debian-13",
        "cpus": 4,
        "memory_mib": 7168,
        "gpus": 0,
        "container": False,
        "out": False,
        "connect_timeout_s": 60,
        "sshd_port": 22,
        "admitted": ["10.20.0.2"],
        "leave": "keep",
    }


def test_range_expands_to_addresses_and_keys() -> None:
    hosts = built(committed("rack-h100")).of("rackwright:hosts:Host")
    assert len(hosts) == 73 and hosts["worker63"]["address"] == "10.30.1.64"
    assert "PLACEHOLDER/worker63/" in hosts["worker63"]["host_key"] and hosts["worker63"]["via"]["name"] == "login0"


def test_jump_host_is_reached_directly() -> None:
    assert built(committed("budget-vms")).of("rackwright:hosts:Host")["login0"].get("via") is None


def test_converge_uses_ssh_endpoint_of_each_machine() -> None:
    hosts = built(committed("budget-vms")).made["converge"][1]["hosts"]
    assert {name: (host["address"], host["port"], host["user"]) for name, host in hosts.items()} == {
        "login0": ("203.0.113.10", 22, "admin"),
        "worker0": ("10.20.0.3", 22, "admin"),
        "worker1": ("10.20.0.4", 22, "admin"),
        "storage0": ("10.20.0.5", 22, "admin"),
    }


@pytest.mark.parametrize("name", ["login0", "worker0"])
def test_registered_resources_satisfy_provider(name: str) -> None:
    token, inputs = built(committed("budget-vms")).made[name]
    served = registry.resource(token)
    assert served is not None
    assert [key for key in served.required if inputs.get(key) is None] == []
