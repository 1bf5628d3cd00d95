"""Features of nodes besides the cluster's services: on which nodes, and none where none is declared."""

from __future__ import annotations

from typing import Any

from rackwright.inventory import Host, inventory, schema_errors
from rackwright.plan import Plan, expand
from rackwright.plan.node_features import PARTS
from rackwright.stackfile.load import load_cluster

LAB: dict[str, Any] = {
    "target": {"kind": "lab"},
    "network": {"cidr": "10.77.0.0/24"},
    "groups": {
        "login": {"count": 1, "roles": ["login", "controller"]},
        "worker": {"count": 2},
        "cpu": {"count": 1, "roles": ["worker"]},
        "storage": {"count": 1},
    },
    "storage": {"home": {"kind": "moosefs", "mount": "/mnt/home", "size": "1GiB"}},
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"
MACHINES = {name: f"10.77.0.{number}" for number, name in enumerate(("login0", "worker0", "worker1", "cpu0", "storage0"), start=10)}
HOSTS = {
    **LAB,
    "target": {"kind": "hosts", "os": "debian-13", "machines": {name: {"address": at, "host_key": KEY} for name, at in MACHINES.items()}},
}


def planned(base: dict[str, Any], **more: Any) -> Plan:
    loaded = load_cluster({**base, **more})
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "lab")


def having(plan: Plan, part: str) -> list[str]:
    return list(plan.groups[f"with_{part}"])


def test_nobody_carries_what_nobody_asked_for() -> None:
    plan = planned(LAB)
    assert {node.features for node in plan.nodes} == {()}
    assert all(having(plan, part) == [] for part in PARTS)
    assert not any(plan.node_stack.model_dump().values())


def test_parts_of_a_kernel_are_left_out_in_containers() -> None:
    asked = {"tuning": {}, "scratch": {"devices": ["/dev/vdb"]}, "rdma": {"ipoib": True}}
    assert {node.features for node in planned(LAB, **asked).nodes} == {()}
    assert planned(HOSTS, **asked).node("worker0").features == ("tuning", "scratch", "roce")


def test_nodes_that_run_jobs_have_it_unless_groups_are_named() -> None:
    assert having(planned(HOSTS, tuning={}), "tuning") == ["worker0", "worker1", "cpu0"]
    assert having(planned(HOSTS, tuning={"groups": ["cpu", "login"]}), "tuning") == ["login0", "cpu0"]
    plan = planned(HOSTS, rdma={"groups": ["worker"], "doca": {"version": "3.2.3"}})
    assert (having(plan, "doca"), having(plan, "roce"), having(plan, "efa")) == (["worker0", "worker1"], [], [])


def test_people_find_tools_and_containers_where_they_work() -> None:
    plan = planned(LAB, software={"containers": ["podman"], "tools": ["perftest"]})
    assert having(plan, "containers") == having(plan, "tools") == ["login0", "worker0", "worker1", "cpu0"]


def test_a_controller_that_nobody_works_on_hands_out_the_plugin() -> None:
    groups = {**LAB["groups"], "login": {"count": 1, "roles": ["login"]}, "head": {"count": 1, "roles": ["controller"]}}
    plan = planned({**LAB, "groups": groups}, software={"containers": ["enroot"], "tools": ["perftest"]})
    assert "head0" in having(plan, "containers") and "head0" not in having(plan, "tools")


def test_one_node_installs_pytorch_for_all_on_the_file_system_it_mounts() -> None:
    software = {"pytorch": {"version": "2.8.0"}}
    plan = planned(LAB, software=software)
    assert having(plan, "pytorch") == ["worker0"]
    assert plan.node_stack.pytorch is not None and plan.node_stack.pytorch.folder == "/mnt/home/software/pytorch-2.8.0"
    away = planned(LAB, software=software, nodes={"worker0": {"state": "out", "reason": "bad DIMM"}})
    assert having(away, "pytorch") == ["worker1"]
    storage = {"home": {**LAB["storage"]["home"], "clients": ["login", "cpu"]}}
    assert having(planned(LAB, software=software, storage=storage), "pytorch") == ["cpu0"]


def test_debian_pytorch_is_installed_on_each_worker() -> None:
    plan = planned(LAB, software={"pytorch": {"source": "debian"}})
    assert having(plan, "pytorch") == ["worker0", "worker1", "cpu0"]
    assert plan.node_stack.pytorch is not None and plan.node_stack.pytorch.folder is None


def test_the_hand_over_of_everything_keeps_its_contract() -> None:
    plan = planned(
        HOSTS,
        tuning={"hugepages": {"2MiB": 4}, "sysctl": {"vm.swappiness": 10}},
        scratch={"devices": ["/dev/vdb"], "format_empty_disks": True},
        rdma={"roce": {"devices": ["mlx5_0"]}},
        software={"containers": ["podman"], "tools": ["nvtop"], "pytorch": {"version": "2.8.0"}},
        directory={"ldap": {"uri": ["ldaps://ldap.example.org"], "base": "dc=example,dc=org"}},
        users={"alice": {"uid": 2001, "groups": ["research"]}},
        user_groups={"research": {"gid": 3001}},
    )
    hosts = {node.name: Host(node.name, node.address, KEY, "1") for node in plan.nodes}
    handed = inventory(plan, hosts)
    assert schema_errors(handed) == []
    assert handed["all"]["vars"]["cluster"]["user_groups"] == [{"name": "research", "gid": 3001}]
    assert set(handed["all"]["children"]["with_directory"]["hosts"]) == set(MACHINES)
