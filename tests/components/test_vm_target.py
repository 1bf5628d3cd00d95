"""Target `vm` under mocks: exactly which resources a stack file becomes, with which inputs."""

from __future__ import annotations

import json

import pytest
from recording import built, committed
from support.ethernet import ethernet, udp

from rackwright.drivers.vm.network.forwarding import Network
from rackwright.drivers.vm.network.topology import Topology, parse
from rackwright.inventory import Host, inventory
from rackwright.model.targets.cloud_image import CloudImage
from rackwright.model.targets.hosts import HostsOs
from rackwright.plan import Plan
from rackwright.targets.vm.network import planned_topology


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
        "rails": [
            {"name": "eth1", "mac": "02:af:28:bf:84:45", "address": "198.18.0.25/24", "mtu": 4400},
            {"name": "eth2", "mac": "02:f2:31:44:fc:ee", "address": "198.18.1.25/24", "mtu": 4400},
        ],
    }


def test_machine_that_is_not_on_the_fabric_has_no_rails() -> None:
    machines = built(committed("lab-vm")).of("rackwright:vm:Node")
    assert {name for name, inputs in machines.items() if "rails" in inputs} == {"worker0", "worker1"}
    assert "rails" not in built(committed("lab-vm-small")).of("rackwright:vm:Node")["login0"]


def test_only_login_machine_forwards_a_port() -> None:
    published = {name: inputs["published"] for name, inputs in built(committed("lab-vm")).of("rackwright:vm:Node").items()}
    assert published == {"login0": ["127.0.0.1:2237:22"], "worker0": [], "worker1": [], "storage0": []}


CLOUD_IMAGE = CloudImage(file="~/images/noble.img", digest="sha256:" + 64 * "a")


def on_cloud_image(stack: str) -> Plan:
    """Return a committed plan whose machines start from a vendor's image."""
    plan = committed(stack)
    return plan.model_copy(update={"target": plan.target.model_copy(update={"os": HostsOs.UBUNTU_24_04, "cloud_image": CLOUD_IMAGE})})


def test_vendors_image_replaces_the_one_that_is_built() -> None:
    made = built(on_cloud_image("lab-vm-small"))
    assert made.of("rackwright:vm:CloudImage") == {"machine-image": {"file": CLOUD_IMAGE.file, "digest": CLOUD_IMAGE.digest}}
    assert made.of("rackwright:vm:Image") == made.of("rackwright:lab:Image") == {}
    machine = made.of("rackwright:vm:Node")["login0"]
    assert (machine["image"], machine["cloud_image"]) == ("/images/2", True)
    assert "cloud_image" not in built(committed("lab-vm-small")).of("rackwright:vm:Node")["login0"]


def test_roles_install_their_packages_on_a_vendors_image() -> None:
    host = {"login0": Host(name="login0", address="10.76.0.16", public_key="ssh-ed25519 AAAA", instance_uid="1")}
    assert inventory(on_cloud_image("lab-vm-small"), host)["all"]["vars"]["cluster"]["preinstalled_roles"] == []


def test_repaired_network_is_verified_again() -> None:
    assert built(committed("lab-vm-small")).of("rackwright:test:Verification")["verification"]["network_revision"] == "r1"


def topology_of(stack: str) -> Topology:
    """Return the network that a committed stack declares."""
    return parse(json.loads(built(committed(stack)).of("rackwright:vm:Network")["network"]["topology"]))


@pytest.mark.parametrize("stack", ["lab-vm", "lab-vm-small"])
def test_every_machine_has_a_port_on_the_cluster_switch(stack: str) -> None:
    ports = [port for port in topology_of(stack).ports if port.switch == "cluster"]
    assert {port.name: (port.mac, port.peer, port.rate_mbps) for port in ports} == {
        f"{node.name}.eth0": (node.mac, f"../nodes/{node.name}/eth0.sock", None) for node in committed(stack).nodes
    }


def test_rails_are_paced_links_to_the_planned_leaves() -> None:
    topology = topology_of("lab-vm")
    assert {name: switch.mtu for name, switch in topology.switches.items()} == {
        "cluster": 1500,
        **dict.fromkeys(("leaf-01", "leaf-02", "spine-01", "spine-02"), 4400),
    }
    rails = [port for port in topology.ports if port.switch != "cluster"]
    assert {port.name: (port.switch, port.mac, port.peer, port.rate_mbps) for port in rails} == {
        "worker0.eth1": ("leaf-01", "02:50:13:54:76:aa", "../nodes/worker0/eth1.sock", 25.0),
        "worker0.eth2": ("leaf-01", "02:66:61:af:fd:5c", "../nodes/worker0/eth2.sock", 25.0),
        "worker1.eth1": ("leaf-02", "02:af:28:bf:84:45", "../nodes/worker1/eth1.sock", 25.0),
        "worker1.eth2": ("leaf-02", "02:f2:31:44:fc:ee", "../nodes/worker1/eth2.sock", 25.0),
    }
    assert {cable.name: (cable.a, cable.b, cable.rate_mbps) for cable in topology.cables} == {
        "leaf-01.3-spine-01.1": ("leaf-01", "spine-01", 100.0),
        "leaf-01.4-spine-02.1": ("leaf-01", "spine-02", 100.0),
        "leaf-02.3-spine-01.2": ("leaf-02", "spine-01", 100.0),
        "leaf-02.4-spine-02.2": ("leaf-02", "spine-02", 100.0),
    }


def test_slower_rails_keep_the_rate_of_cables_between_switches() -> None:
    plan = committed("lab-vm")
    assert plan.fabric is not None
    slower = plan.model_copy(update={"fabric": plan.fabric.model_copy(update={"rate_gbps": 0.05})})
    topology = planned_topology(slower)
    assert {port.rate_mbps for port in topology.ports if port.switch != "cluster"} == {50.0}
    assert {cable.rate_mbps for cable in topology.cables} == {100.0}


RAIL_0 = ("worker0.eth1", "worker1.eth1")


def sent_over(network: Network, begin: float) -> dict[str, int]:
    """Send 32 RoCE flows from worker0 to worker1 on rail 0, all of which arrive; return the frames that each spine has carried."""
    macs = {port.name: port.mac for port in topology_of("lab-vm").ports}
    before = _carried(network)
    for flow in range(32):
        packet = udp("198.18.0.24", "198.18.0.25", (49152 + flow, 4791))
        frame = ethernet(*(macs[name] for name in RAIL_0), packet, kind=0x0800)
        arrived = [*network.receive(RAIL_0[0], frame, begin + flow), *network.advance(begin + flow + 0.5)]
        assert [delivery.port for delivery in arrived] == [RAIL_0[1]]
    return {spine: count - before[spine] for spine, count in _carried(network).items()}


def _carried(network: Network) -> dict[str, int]:
    return {
        spine: sum(way.counters.frames for name, cable in network.cables.items() if spine in name for way in cable.directions())
        for spine in ("spine-01", "spine-02")
    }


def test_flows_between_workers_use_both_spines_until_one_is_dead() -> None:
    network = Network(topology_of("lab-vm"))
    spread = sent_over(network, 0.0)
    assert sum(spread.values()) == 2 * 32 and min(spread.values()) >= 16
    for name in ("leaf-01.3-spine-01.1", "leaf-02.3-spine-01.2"):
        network.set_fault(name, {"up": False}, 100.0)
    assert sent_over(network, 200.0) == {"spine-01": 0, "spine-02": 64}
    assert [(row.name, row.property, row.live) for row in network.differences()] == [
        ("leaf-01.3-spine-01.1", "up", False),
        ("leaf-02.3-spine-01.2", "up", False),
    ]
    network.clear_faults(300.0)
    assert network.differences() == [] and min(sent_over(network, 400.0).values()) >= 16


def test_disks_reach_the_hosts_by_mount_point() -> None:
    plan = committed("lab-vm")
    hosts = built(plan).of("rackwright:ansible:Converge")["converge"]["hosts"]
    assert hosts["storage0"]["devices"] == {
        volume.mount: "/dev/disk/by-id/virtio-rw1" for volume in plan.volumes if volume.node == "storage0"
    }
