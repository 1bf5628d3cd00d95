"""Captured answers, and facts read from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.inventory.reader import from_inventory
from rackwright.report.hardware.facts import Facts, Part

FOLDER = Path(__file__).with_name("captured")
GPUS = {
    "model": "h100", "count": 8, "product": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "driver": "580.173.02",
    "nvswitch": True, "simulated": False,
}  # fmt: skip
CASES = {
    Part.CPUS: "good-two-sockets",
    Part.GPU_LINKS: "good-nvswitch",
}


def captured(part, case="good"):
    """Return one captured answer, parsed."""
    return HARDWARE_PROBES[part].read(CommandOutput(out=(FOLDER / part / f"{case}.txt").read_text(encoding="utf-8")))


@pytest.fixture
def facts():
    """Return all facts of a healthy DGX-like node."""
    return Facts(**{part.value: captured(part, CASES.get(part, "good")) for part in Part})


def _record(name, group, gpus=None, **more):
    return {
        "name": name, "group": group, "roles": [group], "address": "10.0.0.1", "user": "root", "cpus": 128, "memory_mib": 1650000,
        "gpus": gpus,
        "rails": [f"mlx5_{rail}" for rail in range(8)] if gpus else [], "state": "in", "reason": None, **more,
    }  # fmt: skip


@pytest.fixture
def inventory():
    """Return the inventory of one login and three real GPU nodes on an InfiniBand fabric."""
    nodes = [_record("login0", "login"), *(_record(f"worker{index}", "worker", GPUS) for index in range(3))]
    names = [node["name"] for node in nodes]
    workers = names[1:]
    cluster = {
        "level": "smoke", "simulated": [], "access": {"jump_hosts": ["login0"]},
        "storage": [{"name": "s", "mount": "/mnt/sharedfs", "kind": "moosefs", "clients": names, "servers": []}],
        "scheduler": {"kind": "slurm", "submit_hosts": ["login0"], "nodes": [{"name": name, "gpus": 8} for name in workers],
                      "partitions": [{"name": "gpu", "nodes": workers}], "config_overrides": False},
        "users": [{"name": "alice"}],
    }  # fmt: skip
    groups = {"nodes": names, "gpu": workers, "out": []}
    return {
        "all": {
            "vars": {
                "handover": {"schema": "rackwright.inventory/7", "stack": "rack", "target": "hosts"},
                "cluster": cluster,
                "fabric": {"kind": "infiniband", "rate_gbps": 400, "link_layer": "InfiniBand", "simulated": False, "subnet_manager": None},
            },
            "children": {group: {"hosts": dict.fromkeys(members)} for group, members in groups.items()},
            "hosts": {node["name"]: {"node": node} for node in nodes},
        }
    }


@pytest.fixture
def declared(inventory):
    """Return the inventory, parsed."""
    return from_inventory(inventory)
