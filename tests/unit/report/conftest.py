"""A small plan and its results."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import pytest

from rackwright.catalog.checks import checks
from rackwright.inventory.reader import from_inventory
from rackwright.report.check_plan import plan_checks
from rackwright.report.document import build_report
from rackwright.report.result import result
from rackwright.report.verdict import Verdict

STARTED = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)


def _node(name, *roles, gpus=None, **more):
    return {
        "name": name, "roles": list(roles), "fqdn": f"{name}.lab.internal", "address": "10.77.0.16",
        "mac": "02:00:00:00:00:01", "user": "root", "ssh_port": 22, "cpus": 4,
        "memory_mib": 2048, "gpus": gpus, "os": "debian-13", "state": "in", "reason": None, "until": None, **more,
    }  # fmt: skip


def _inventory():
    gpus = {"model": "h100", "count": 8, "product": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "driver": "580.173.02", "simulated": True}
    nodes = [
        _node("login0", "login", "controller", "accounting"),
        _node("worker0", "worker", gpus=gpus),
        _node(
            "worker1",
            "worker",
            gpus={**gpus, "model": "gb200", "simulated": False, "nvswitch": True, "mig": [[{"profile": "7g.80gb", "start": 0}]] * 7 + [[]]},
            neuron_devices=1,
            features=["scratch", "tools", "tuning"],
            threads_per_core=1,
            imex_nodes=["10.77.0.16"],
        ),
        _node("storage0", "storage"),
    ]
    everybody = [node["name"] for node in nodes]
    groups = {
        "nodes": everybody, "login": ["login0"], "worker": ["worker0", "worker1"], "storage": ["storage0"], "role_login": ["login0"],
        "role_controller": ["login0"], "role_accounting": ["login0"], "role_worker": ["worker0", "worker1"], "role_storage": ["storage0"],
        "gpu": ["worker0", "worker1"], "gpu_whole": ["worker0"], "mig": ["worker1"], "smt": ["worker1"],
        "gpu_software": ["worker1"], "nvswitch": ["worker1"], "nvlink": ["worker1"], "nvlink_rack": ["worker1"],
        "nvlink_domain": ["worker1"],
        "fabric": ["login0", "worker0", "worker1"],
        "neuron": ["worker1"], "with_tuning": ["worker1"],
        "storage_client": everybody, "slurm": ["login0", "worker0", "worker1"], "out": [],
    }  # fmt: skip
    cluster = {
        "stack": "lab", "target": "lab", "level": "smoke", "time_zone": "Etc/UTC", "simulated": ["gpu", "fabric"], "metadata_service": True,
        "network": {"cidr": "10.77.0.0/24", "gateway": "10.77.0.1"},
        "software": {"versions": {"driver": "580.173.02", "cuda": "13.0", "nccl": "2.28.9", "dcgm": "4.6.0"}, "nccl": {}},
        "access": {"jump_hosts": ["login0"], "port": 2222, "listen": "127.0.0.1", "allow": ["0.0.0.0/0"]},
        "hosts": [{"name": name, "fqdn": f"{name}.lab.internal", "address": "10.77.0.16"} for name in everybody],
        "users": [{"name": "alice", "uid": 2001, "gid": 2001, "shell": "/bin/bash", "admin": False, "ssh_keys": []}],
        "user_groups": [{"name": "research", "gid": 3001}],
        "storage": [
            {"name": "s", "kind": "moosefs",
              "mount": "/mnt/s", "servers": ["storage0"], "clients": everybody, "folder": None, "size_mib": 5120, "mode": "1777"},
            {"name": "n", "kind": "nfs", "mount": "/mnt/n", "servers": ["storage0"], "clients": ["login0"],
              "folder": "/srv/rackwright/n", "size_mib": 5120, "mode": "1777"},
        ],
        "scheduler": {
            "kind": "slurm", "cluster_name": "lab", "controllers": ["login0"], "accounting": "login0", "submit_hosts": ["login0"],
            "nodes": [{"name": name, "cpus": 8, "memory_mib": 2048, "gpus": 8, "gpu_type": "h100"} for name in ("worker0", "worker1")],
            "partitions": [{"name": "gpu", "nodes": ["worker0", "worker1"], "default": True, "max_time": None}], "config_overrides": True,
            "constrains": ["cores", "memory", "devices"],
            "health_interval_s": 60, "accounts": [{"name": "research"}], "qos": [{"name": "urgent"}],
        },
    }  # fmt: skip
    fabric = {
        "kind": "infiniband", "topology": "rail-optimised", "rails": 1, "speed": "NDR", "rate": "NDR", "width": "4x", "rate_gbps": 400,
        "switch_width": "4x", "line_card": None,
        "link_layer": "InfiniBand", "simulated": True, "subnet_manager": "login0", "server": "login0", "netlist": "",
        "switches": ["leaf-01"],
        "cables": ["worker0/mlx5_0:1 leaf-01:1", "worker1/mlx5_0:1 leaf-01:2", "login0/mlx5_0:1 leaf-01:64"],
    }  # fmt: skip
    return {
        "all": {
            "vars": {
                "handover": {"schema": "rackwright.inventory/7", "stack": "lab", "target": "lab"},
                "cluster": cluster,
                "node_stack": _NODE_STACK,
                "fabric": fabric,
            },
            "children": {group: {"hosts": {name: {} for name in members}} for group, members in groups.items()},
            "hosts": {node["name"]: {"ansible_host": node["name"], "ansible_user": node["user"], "node": node} for node in nodes},
        }
    }


_NODE_STACK = {
    "tools": ["fio", "hpcc"],
    "tuning": {
        "profile": "hpc-compute", "transparent_hugepages": "madvise", "hugepages": {"2MiB": 4}, "limits": {"memlock": "unlimited"},
        "sysctl": {"vm.swappiness": 10},
    },
}  # fmt: skip


@pytest.fixture
def inventory():
    """Return the inventory of a lab with one login, two GPU workers and one storage node. It has every part, also NFS and a cloud's."""
    return copy.deepcopy(_inventory())


@pytest.fixture
def inventory_with_separate_controller():
    """Return the inventory of a lab whose login node runs no daemon of Slurm but sackd."""
    made = copy.deepcopy(_inventory())
    made["all"]["children"]["role_controller"]["hosts"] = {"storage0": {}}
    return made


_KUBERNETES = {
    "kind": "kubernetes", "cluster_name": "lab", "version": "1.34.1", "bundled": True, "controllers": ["login0"],
    "submit_hosts": ["login0"], "endpoint": "10.77.0.10:6443", "virtual_address": "10.77.0.10",
    "pods": "10.244.0.0/16", "services": "10.245.0.0/16", "cni": "bridge",
    "network": {"encapsulation": "none", "mtu": 1500, "enforces_network_policy": False},
    "nodes": [
        {"name": "login0", "is_control_plane": True, "runs_workloads": False, "gpus": 0},
        {"name": "worker0", "is_control_plane": False, "runs_workloads": True, "gpus": 8},
        {"name": "worker1", "is_control_plane": False, "runs_workloads": True, "gpus": 8},
    ],
    "namespaces": [{"name": "research", "users": ["alice"], "gpus": 12, "cpus": None, "memory_mib": None, "pods": None}],
    "addons": [
        {"name": name, "version": "1.0.0", "image": f"rackwright.local/{name}:1.0.0", "namespace": name, "deployment": name}
        for name in ("jobset", "training-operator", "leaderworkerset", "dra-example-driver", "kueue", "metrics-server", "metallb", "keda")
    ],
    "folders": [{"path": "/mnt/s/kubernetes/research", "mode": "1777"}],
}  # fmt: skip


@pytest.fixture
def kubernetes_inventory(inventory):
    """Return the same with Kubernetes instead of Slurm."""
    inventory["all"]["vars"]["cluster"]["scheduler"] = copy.deepcopy(_KUBERNETES)
    members = {
        "kubernetes": ["login0", "worker0", "worker1"],
        "kube_control_plane": ["login0"],
        "kubernetes_worker": ["worker0", "worker1"],
    }
    for group, names in {**members, "kubernetes_login": ["login0"], "slurm": []}.items():
        inventory["all"]["children"][group] = {"hosts": {name: {} for name in names}}
    return inventory


@pytest.fixture
def declared(inventory):
    """Return the inventory, parsed."""
    return from_inventory(inventory)


@pytest.fixture
def check_plan(declared):
    """Return all results that a run at level smoke owes."""
    return plan_checks(declared, checks(), declared.level)


@pytest.fixture
def green(check_plan):
    """Return a passed result for every owed check."""
    return {id_: result(item, Verdict.PASSED, expected="8", found="8", seconds=0.01) for id_, item in check_plan.expected.items()}


@pytest.fixture
def report(declared, check_plan):
    """Return a function that makes a report of given results."""
    return lambda results, **more: build_report(declared, check_plan, results, started=STARTED, seconds=2.5, **more)
