"""Target `vm` under mocks: exactly which resources a stack file becomes, with which inputs."""

from __future__ import annotations

import json

import pytest
from recording import built, committed

from rackwright.drivers.vm.network.topology import parse


@pytest.mark.parametrize("stack", ["lab-vm", "lab-vm-small"])
def test_vm_stack_registers_one_machine_per_plan_node(stack: str) -> None:
    plan = committed(stack)
    names = {node.name for node in plan.nodes}
    expected = {
        "access-key": "rackwright:secret:SshKeyPair",
        "label": "rackwright:vm:StackMarker",
        "network": "rackwright:vm:Network",
        "image": "rackwright:lab:Image",
        "machine-image": "rackwright:vm:Image",
        **dict.fromkeys((volume.name for volume in plan.volumes), "rackwright:vm:Volume"),
        **{f"{name}-host-key": "rackwright:secret:SshKeyPair" for name in names},
        **dict.fromkeys(names, "rackwright:vm:Node"),
        "converge": "rackwright:ansible:Converge",
        "verification": "rackwright:test:Verification",
    }
    assert {name: typ for name, (typ, _) in built(plan).made.items()} == expected


def test_vm_worker_has_exact_inputs() -> None:
    plan = committed("lab-vm")
    worker = plan.node("worker1")
    given = {name: value for name, value in built(plan).of("rackwright:vm:Node")["worker1"].items() if value is not None}
    assert given == {
        "stack": "lab-vm",
        "name": "worker1",
        "image": "/images/1",
        "network": "/machines/network",
        "acceleration": "auto",
        "address": worker.address,
        "prefix": 24,
        "mac": worker.mac,
        "cpus": 2,
        "memory_mib": 1024,
        "volumes": {},
        "published": [],
        "host_key": "PRIVATE",
        "host_public_key": "ssh-ed25519 AAAA",
        "authorized_key": "ssh-ed25519 AAAA",
    }


def test_only_login_machine_forwards_a_port() -> None:
    published = {name: inputs["published"] for name, inputs in built(committed("lab-vm")).of("rackwright:vm:Node").items()}
    assert published == {"login0": ["127.0.0.1:2237:22"], "worker0": [], "worker1": [], "storage0": []}


def test_every_machine_has_a_port_on_the_cluster_switch() -> None:
    plan = committed("lab-vm")
    topology = parse(json.loads(built(plan).of("rackwright:vm:Network")["network"]["topology"]))
    assert {port.name: (port.switch, port.mac, port.peer) for port in topology.ports} == {
        f"{node.name}.eth0": ("cluster", node.mac, f"../nodes/{node.name}/eth0.sock") for node in plan.nodes
    }


def test_disks_reach_the_hosts_by_mount_point() -> None:
    plan = committed("lab-vm")
    hosts = built(plan).of("rackwright:ansible:Converge")["converge"]["hosts"]
    assert hosts["storage0"]["devices"] == {
        volume.mount: "/dev/disk/by-id/virtio-rw1" for volume in plan.volumes if volume.node == "storage0"
    }
