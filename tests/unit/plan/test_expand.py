"""cluster -> plan: what every plan keeps to, whatever the cluster."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright.inventory import paths
from rackwright.model import Cluster, Role
from rackwright.model.groups import MigDevices, roles_of
from rackwright.plan import Plan, expand
from rackwright.plan.node_features import PARTS
from rackwright.plan.slurm.schema import Slurm
from rackwright.rules.common.names import _OWN_GROUPS
from rackwright.stackfile.load import load_cluster, load_stack

calm = settings(derandomize=True)
"""No clock and no chance: a slow or lucky machine must not decide a test."""
NAMES = ("login", "worker", "storage", "a", "b-c", "compute")
ROLES = st.lists(st.sampled_from([role.value for role in Role]), min_size=1, max_size=3, unique=True)


def cluster(groups: dict[str, Any], **more: Any) -> Cluster:
    """A cluster of these groups, its fields valid."""
    loaded = load_cluster({"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/20"}, "groups": groups, **more})
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


@st.composite
def group_sets(draw: st.DrawFn) -> dict[str, Any]:
    """Some groups in some order, with roles and counts within their capacity."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    groups = {}
    for name in names:
        roles = draw(ROLES)
        capacity = draw(st.none() | st.integers(min_value=1, max_value=40))
        most = capacity or (64 if "worker" in roles else 8)
        groups[name] = {"roles": roles, "count": draw(st.integers(min_value=0, max_value=most)), "reserved_addresses": capacity}
    return groups


@calm
@given(group_sets())
def test_names_addresses_and_macs_are_unique_and_inside_the_network(groups: dict[str, Any]) -> None:
    """Two nodes with one address stall each other in ways that take a day to find."""
    plan = expand(cluster(groups), "lab")
    network = IPv4Network(plan.network.cidr)
    for values in ([n.name for n in plan.nodes], [n.address for n in plan.nodes], [n.mac for n in plan.nodes]):
        assert len(set(values)) == len(values)
    addresses = {IPv4Address(node.address) for node in plan.nodes}
    assert all(address in network for address in addresses)
    assert not addresses & {network.network_address, network.broadcast_address, IPv4Address(plan.network.gateway)}


@calm
@given(group_sets(), st.data())
def test_scaling_moves_nobody(groups: dict[str, Any], data: st.DataObject) -> None:
    """Adding worker2 never renumbers worker1, nor any node of any other group."""
    name = data.draw(st.sampled_from(sorted(groups)))
    most = groups[name]["reserved_addresses"] or (64 if "worker" in groups[name]["roles"] else 8)
    scaled = {**groups, name: {**groups[name], "count": data.draw(st.integers(min_value=0, max_value=most))}}
    before = {node.name: node for node in expand(cluster(groups), "lab").nodes}
    after = {node.name: node for node in expand(cluster(scaled), "lab").nodes}
    for node in before.keys() & after.keys():
        assert before[node] == after[node]
    assert {node for node in before if not node.startswith(name)} == {node for node in after if not node.startswith(name)}


@calm
@given(group_sets())
def test_a_new_group_at_the_end_moves_nobody(groups: dict[str, Any]) -> None:
    """What the schema tells the user: add new groups at the end."""
    before = expand(cluster(groups), "lab").nodes
    after = expand(cluster({**groups, "zz": {"roles": ["worker"], "count": 2}}), "lab").nodes
    assert after[: len(before)] == before


@calm
@given(group_sets(), st.data())
def test_a_node_that_is_out_is_in_group_out_alone(groups: dict[str, Any], data: st.DataObject) -> None:
    """Left out of phases and checks, but still planned, at the same address."""
    names = [node.name for node in expand(cluster(groups), "lab").nodes]
    out = set(data.draw(st.lists(st.sampled_from(names), unique=True))) if names else set()
    without = expand(cluster(groups), "lab")
    plan = expand(cluster(groups, nodes={name: {"state": "out", "reason": "x"} for name in out}), "lab")
    assert set(plan.groups["out"]) == out
    assert all(not out & set(nodes) for group, nodes in plan.groups.items() if group != "out")
    assert set(plan.groups["nodes"]) == set(names) - out
    assert [node.address for node in plan.nodes] == [node.address for node in without.nodes]
    assert plan.access.ports == without.access.ports
    assert plan.volumes == without.volumes
    scheduled = {*plan.scheduler.controllers, *plan.scheduler.submit_hosts, *(node.name for node in plan.scheduler.nodes)}
    assert not out & scheduled


@calm
@given(group_sets())
def test_a_plan_survives_being_written_and_read(groups: dict[str, Any]) -> None:
    """The provider receives it as JSON."""
    plan = expand(cluster(groups, storage={"fs": {"kind": "moosefs", "mount": "/mnt/fs", "size": "1GiB"}}), "lab")
    assert Plan.from_data(json.loads(json.dumps(plan.to_data()))) == plan


@calm
@given(group_sets())
def test_groups_name_only_nodes_and_every_role_has_one(groups: dict[str, Any]) -> None:
    """An empty group is there and empty; a missing one would make a play skip silently."""
    plan = expand(cluster(groups), "lab")
    names = {node.name for node in plan.nodes}
    assert all(set(nodes) <= names for nodes in plan.groups.values())
    fixed = {"gpu", "gpu_whole", "mig", "gpu_software", "nvswitch", "fabric", "neuron", "storage_client", "slurm", "smt", "nodes", "out"}
    fixed |= {"amd_gpu", "amd_software", "amd_xgmi"}
    fixed |= {"nvlink", "nvlink_rack", "nvlink_domain", "kubernetes", "kube_control_plane", "kubernetes_worker", "kubernetes_login"}
    fixed |= {f"role_{role}" for role in Role if role is not Role.RUNNER or any(role in node.roles for node in plan.nodes)}
    assert {*fixed, *groups, *(f"with_{part}" for part in PARTS)} == set(plan.groups)


GPU_AND_CPU = {
    "login": {"count": 1},
    "worker": {"count": 2, "gpus": {"model": "h100", "count": 8}},
    "cpu": {"count": 1, "roles": ["worker"]},
}


def test_workers_with_and_without_gpus_get_a_queue_each() -> None:
    """A job for the queue `gpu` must never land on a node without one."""
    scheduler = expand(cluster(GPU_AND_CPU), "lab").scheduler
    partitions = scheduler.partitions
    assert [(n.name, n.gpus, n.gpu_type) for n in scheduler.nodes] == [("worker0", 8, "h100"), ("worker1", 8, "h100"), ("cpu0", 0, None)]
    assert [(p.name, p.nodes, p.default) for p in partitions] == [("gpu", ("worker0", "worker1"), True), ("cpu", ("cpu0",), False)]


def test_the_first_queue_is_the_default_unless_one_says_so() -> None:
    """A job that names no queue must go somewhere."""
    queues: dict[str, Any] = {"a": {"groups": ["worker"]}, "b": {"nodes": ["cpu0", "worker1"], "max_time": "1h"}}
    first, second = expand(cluster(GPU_AND_CPU, scheduler={"kind": "slurm", "partitions": queues}), "lab").scheduler.partitions
    assert (first.default, second.default, second.nodes, second.max_time) == (True, False, ("worker1", "cpu0"), 3600)
    queues["b"]["default"] = True
    first, second = expand(cluster(GPU_AND_CPU, scheduler={"kind": "slurm", "partitions": queues}), "lab").scheduler.partitions
    assert (first.default, second.default) == (False, True)


def test_controllers_stand_in_the_order_in_which_they_take_over() -> None:
    """The backup may have been declared first."""
    groups = {"b": {"count": 2, "roles": ["controller"]}, "a": {"count": 1, "roles": ["controller"]}}
    plan = expand(cluster(groups, scheduler={"kind": "slurm", "backup_controllers": ["b1", "b0"]}), "lab")
    assert plan.scheduler.controllers == ("a0", "b1", "b0")


def test_storage_is_served_and_mounted_by_the_groups_it_names() -> None:
    """Or by all with the role, and mounted everywhere."""
    groups = {"login": {"count": 1}, "storage": {"count": 1}, "archive": {"count": 1, "roles": ["storage"]}}
    declared = {"kind": "moosefs", "mount": "/mnt/a", "size": "1GiB"}
    (usual,) = expand(cluster(groups, storage={"a": declared}), "lab").storage
    assert (usual.servers, usual.clients) == (("storage0", "archive0"), ("login0", "storage0", "archive0"))
    (chosen,) = expand(cluster(groups, storage={"a": {**declared, "servers": ["archive"], "clients": ["login"]}}), "lab").storage
    assert (chosen.servers, chosen.clients) == (("archive0",), ("login0",))


def test_nfs_exports_a_folder_of_its_one_server() -> None:
    """One server may export several, each on a disk of its own; no metadata server has to be kept."""
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "storage": {"count": 1}}
    declared = {name: {"kind": "nfs", "mount": f"/mnt/{name}", "size": "1GiB"} for name in ("data", "tools")}
    plan = expand(cluster(groups, storage=declared), "lab")
    assert [(fs.folder, fs.servers) for fs in plan.storage] == [
        ("/srv/rackwright/data", ("storage0",)),
        ("/srv/rackwright/tools", ("storage0",)),
    ]
    assert [(v.name, v.mount) for v in plan.volumes if v.node == "storage0"] == [
        ("storage0-data", "/srv/rackwright/data"),
        ("storage0-tools", "/srv/rackwright/tools"),
    ]


def test_existing_file_systems_have_no_servers_and_no_volumes() -> None:
    """Not even where nodes have the role storage: nothing of such a file system is created."""
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "storage": {"count": 1}}
    declared = {
        "home": {"kind": "existing-nfs", "mount": "/home", "source": "nas:/home", "nconnect": 4, "clients": ["login"]},
        "fast": {"kind": "existing-nfs", "mount": "/mnt/fast", "source": "nas:/fast", "rdma": True, "version": "4.1", "sec": "krb5"},
        "scratch": {"kind": "existing-lustre", "mount": "/mnt/scratch", "source": "10.0.0.1@tcp:/scratch", "read_only": True},
    }
    plan = expand(cluster(groups, storage=declared), "lab")
    assert not any(volume.purpose == "storage" for volume in plan.volumes)
    assert [(fs.servers, fs.folder, fs.size_mib, fs.mode) for fs in plan.storage] == [((), None, None, None)] * 3
    assert [(fs.rdma, fs.nconnect, fs.clients) for fs in plan.storage] == [
        (False, 4, ("login0",)),
        (True, None, ("login0", "storage0")),
        (False, None, ("login0", "storage0")),
    ]
    assert [
        fs.existing and (fs.existing.source, fs.existing.version, fs.existing.sec, fs.existing.flock, fs.existing.read_only)
        for fs in plan.storage
    ] == [
        ("nas:/home", "4.2", "sys", None, False),
        ("nas:/fast", "4.1", "krb5", None, False),
        ("10.0.0.1@tcp:/scratch", None, None, True, True),
    ]


def test_login_nodes_are_published_on_ports_that_never_move() -> None:
    """A node's port follows from its address, so a second group of login nodes keeps its ports when the first one grows."""
    one = expand(cluster({"login": {"count": 1}, "front": {"count": 1, "roles": ["login"]}}), "lab").access.ports
    two = expand(cluster({"login": {"count": 2}, "front": {"count": 1, "roles": ["login"]}}), "lab").access.ports
    assert one == {"login0": 2222, "front0": 2230}
    assert two == {**one, "login1": 2223}


def test_macs_differ_between_stacks() -> None:
    """Two stacks may share a bridge's neighbours."""
    groups = {"login": {"count": 1}}
    assert expand(cluster(groups), "a").nodes[0].mac != expand(cluster(groups), "b").nodes[0].mac


def test_data_outlives_its_node() -> None:
    """A controller healed under its name finds its jobs, a storage node its files."""
    groups = {"head": {"count": 1, "roles": ["login", "controller", "accounting"]}, "storage": {"count": 1}, "worker": {"count": 1}}
    plan = expand(cluster(groups, storage={"fs": {"kind": "moosefs", "mount": "/mnt/fs", "size": "2GiB"}}), "lab")
    assert {(v.node, v.purpose, v.mount) for v in plan.volumes} == {
        ("head0", "accounting", "/var/lib/mysql"),
        ("head0", "scheduler", "/var/lib/slurm"),
        ("storage0", "storage", "/srv/rackwright"),
        ("storage0", "metadata", "/var/lib/mfs"),
    }
    assert len({volume.name for volume in plan.volumes}) == len(plan.volumes)


def test_a_lab_costs_nothing_and_says_why() -> None:
    """The command exists for all targets."""
    cost = expand(cluster({"login": {"count": 1}, "worker": {"count": 3}}), "lab").cost
    assert cost.usd_per_hour == 0
    assert [(line.group, line.count) for line in cost.lines] == [("login", 1), ("worker", 3)]


def test_a_plan_answers_for_its_nodes() -> None:
    """By name."""
    plan = expand(cluster({"login": {"count": 2}}, nodes={"login1": {"state": "out", "reason": "x", "until": "2026-12-01"}}), "lab")
    assert plan.node("login1").until == "2026-12-01"
    assert (plan.is_in("login0"), plan.is_in("login1"), plan.is_in("login2")) == (True, False, False)
    with pytest.raises(KeyError):
        plan.node("login2")


def test_the_scale_the_design_aims_at_is_expanded_in_a_moment() -> None:
    """256 nodes with 2048 GPUs; a hang here would be a quadratic loop."""
    plan = expand(
        cluster({"login": {"count": 1}, "worker": {"count": 256, "reserved_addresses": 512, "gpus": {"model": "h100", "count": 8}}}), "rack"
    )
    assert len(plan.nodes) == 257
    assert sum(node.gpus for node in plan.scheduler.nodes) == 2048


def test_threads_per_core_reach_scheduler_and_group() -> None:
    """Nodes whose group declares none are in no check of them."""
    cluster = load_stack(paths.stack_file("onprem-gpu")).cluster
    assert cluster is not None
    group = next(name for name in cluster.groups if Role.WORKER in roles_of(name, cluster.groups[name]))
    groups = {**cluster.groups, group: cluster.groups[group].model_copy(update={"threads_per_core": 1, "sockets": 2})}
    planned = expand(cluster.model_copy(update={"groups": groups}), "onprem-gpu")
    declared = {node.name for node in planned.nodes if node.group == group}
    assert set(planned.groups["smt"]) == declared
    assert isinstance(planned.scheduler, Slurm)
    assert {node.name for node in planned.scheduler.nodes if (node.threads_per_core, node.sockets) == (1, 2)} == declared
    assert expand(cluster, "onprem-gpu").groups["smt"] == ()


def test_mig_instances_are_what_slurm_counts() -> None:
    """A GPU without instances is whole; the node is in no group of nodes whose GPUs are all whole."""
    said = cluster({"worker": {"count": 2, "gpus": {"model": "h100", "count": 2}}, "login": {"count": 1}})
    gpus = said.groups["worker"].gpus
    assert gpus is not None
    divided = gpus.model_copy(update={"mig": (MigDevices(devices=(1,), profiles={"3g.40gb": None}),)})
    groups = {**said.groups, "worker": said.groups["worker"].model_copy(update={"gpus": divided})}
    planned = expand(said.model_copy(update={"groups": groups}), "lab")
    assert (planned.groups["mig"], planned.groups["gpu_whole"]) == (("worker0", "worker1"), ())
    assert isinstance(planned.scheduler, Slurm)
    node = planned.scheduler.nodes[0]
    assert (node.gpus, node.gpu_type) == (3, None)
    assert [(one.type, one.gpu, one.instance) for one in node.gres] == [("h100", 0, None), ("h100_3g.40gb", 1, 0), ("h100_3g.40gb", 1, 1)]
    whole = expand(said, "lab")
    assert (whole.groups["mig"], whole.groups["gpu_whole"]) == ((), ("worker0", "worker1"))
    assert isinstance(whole.scheduler, Slurm) and whole.scheduler.nodes[0].gres == ()


def test_inference_chips_come_from_the_instance_type() -> None:
    """The stack file does not count them, and no other target has any."""
    inference = load_stack(paths.stack_file("aws-inf2")).cluster
    assert inference is not None
    plan = expand(inference, "aws-inf2")
    assert plan.groups["neuron"] == ("worker0", "worker1")
    assert [plan.node(name).neuron_devices for name in ("login0", "worker0")] == [0, 1]
    assert expand(cluster({"worker": {"count": 2}}), "lab").groups["neuron"] == ()


def test_no_stack_may_give_a_group_the_name_of_a_feature() -> None:
    """Its nodes would be mixed with those that have the feature."""
    own = {"login", "worker"}
    features = set(expand(cluster({name: {"count": 1} for name in own}), "lab").groups) - own
    assert {name for name in features if "_" not in name} <= _OWN_GROUPS


def test_options_of_partitions_and_nodes_reach_scheduler() -> None:
    """Slurm gets them from the plan; groups and partitions without any have Slurm's defaults."""
    options = {"default_time": "1h", "max_nodes": 2, "priority_tier": 4, "exclusive": True}
    options |= {"allow_accounts": ["default"], "allow_groups": ["alice"], "qos": "floating", "allow_qos": ["normal"], "preempt_mode": "off"}
    said = cluster(
        {"login": {"count": 1}, "worker": {"count": 2, "features": ["ib"], "weight": 7}, "a": {"count": 1, "roles": ["worker"]}},
        scheduler={"kind": "slurm", "partitions": {"big": {"groups": ["worker"], **options}, "small": {"groups": ["a"]}}},
    )
    planned = expand(said, "lab").scheduler
    assert isinstance(planned, Slurm)
    assert {(node.features, node.weight) for node in planned.nodes} == {(("ib",), 7), ((), 1)}
    big, small = (partition.model_dump(include=set(options)) for partition in planned.partitions)
    assert big == {**options, "default_time": 3600, "allow_accounts": ("default",), "allow_groups": ("alice",), "allow_qos": ("normal",)}
    assert small == {
        "default_time": None,
        "max_nodes": None,
        "priority_tier": 1,
        "exclusive": False,
        "allow_accounts": (),
        "allow_groups": (),
        "qos": None,
        "allow_qos": (),
        "preempt_mode": None,
    }


@pytest.mark.parametrize(
    ("scheduler", "planned"),
    [
        ({}, None),
        ({"qos": {"idle": {}, "urgent": {"priority": 7}}}, None),
        ({"qos": {"idle": {}, "urgent": {"preempt": ["idle"]}}}, ("qos", "requeue", False, None)),
        ({"preemption": {"by": "qos", "mode": "cancel", "exempt_time": "5m"}}, ("qos", "cancel", False, 300)),
        ({"preemption": {"by": "partition_priority", "mode": "suspend"}}, ("partition_priority", "suspend", True, None)),
        (
            {"preemption": {"by": "partition_priority"}, "partitions": {"cpu": {"groups": ["worker"], "preempt_mode": "suspend"}}},
            ("partition_priority", "requeue", True, None),
        ),
        (
            {"preemption": {"by": "partition_priority"}, "partitions": {"cpu": {"groups": ["worker"], "preempt_mode": "off"}}},
            ("partition_priority", "requeue", False, None),
        ),
    ],
)
def test_preemption_follows_from_qos_and_partitions(scheduler: dict[str, Any], planned: tuple[Any, ...] | None) -> None:
    said = cluster({"login": {"count": 1}, "worker": {"count": 1}}, scheduler={"kind": "slurm", **scheduler})
    found = expand(said, "lab").scheduler
    assert isinstance(found, Slurm)
    assert planned == (found.preemption and tuple(found.preemption.model_dump().values()))


def test_slurm_gets_no_memory_that_a_machine_does_not_show() -> None:
    """Slurm drains a node with less than its RealMemory; firmware and kernel keep some of an existing machine's."""
    machines = {"login0": {"address": "10.77.0.2"}, "worker0": {"address": "10.77.0.3"}}
    groups = {"login": {"count": 1, "cpus": 2, "memory": "2GiB"}, "worker": {"count": 1, "cpus": 2, "memory": "128GiB"}}
    hosts = expand(cluster(groups, target={"kind": "hosts", "os": "debian-13", "machines": machines}), "mine")
    assert isinstance(hosts.scheduler, Slurm)
    assert [node.memory_mib for node in hosts.nodes] == [2048, 131072]
    shown = 128813  # MiB, of a machine with 128 GiB: docs.hpc.udel.edu, Caviness, node memory sizes
    assert hosts.scheduler.nodes[0].memory_mib == 124518 < shown
    lab = expand(cluster(groups), "lab")
    assert isinstance(lab.scheduler, Slurm)
    assert lab.scheduler.nodes[0].memory_mib == 131072
