"""Processor architecture of nodes: declared, of the instance type, or of the GPU's module; and the packages that it decides on."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster


def described(gpus: dict[str, Any], target: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    """A login node, and a worker with GPUs."""
    machines = {"login0": {"address": "10.7.0.10"}, "worker0": {"address": "10.7.0.11", **worker}}
    return {
        "target": {"kind": "hosts", "os": "ubuntu-24.04", "machines": machines, **target},
        "network": {"cidr": "10.7.0.0/24"},
        "access": {"allowed_cidrs": ["10.0.0.0/8"]},
        "groups": {
            "login": {"count": 1, "roles": ["login", "controller"], "cpus": 8, "memory": "16GiB"},
            "worker": {"count": 1, "cpus": 72, "memory": "480GiB", "gpus": gpus},
        },
        "software": {"profile": "2026-lts-arm64"},
    }


@pytest.mark.parametrize(
    ("gpus", "target", "worker", "processors"),
    [
        pytest.param({"model": "gb200", "count": 4}, {}, {}, ["x86_64", "arm64"], id="module-of-the-gpu"),
        pytest.param({"model": "h100", "count": 8}, {}, {}, ["x86_64", "x86_64"], id="card"),
        pytest.param({"model": "l40s", "count": 2}, {"architecture": "arm64"}, {}, ["arm64", "arm64"], id="target"),
        pytest.param(
            {"model": "l40s", "count": 2}, {"architecture": "arm64"}, {"architecture": "x86_64"}, ["arm64", "x86_64"], id="machine"
        ),
    ],
)
def test_processor_of_each_node(gpus: dict[str, Any], target: dict[str, Any], worker: dict[str, Any], processors: list[str]) -> None:
    loaded = load_cluster(described(gpus, target, worker), "rack")
    assert loaded.cluster is not None, loaded.findings
    assert [node.architecture for node in expand(loaded.cluster, "rack").nodes] == processors


@pytest.mark.parametrize(
    ("os", "folders"),
    [
        ("ubuntu-22.04", ("ubuntu2204/x86_64", "ubuntu2204/sbsa")),
        ("ubuntu-24.04", ("ubuntu2404/x86_64", "ubuntu2404/sbsa")),
        ("rocky-9", ("rhel9/x86_64", "rhel9/sbsa")),
    ],
)
def test_repository_of_each_processor(os: str, folders: tuple[str, str]) -> None:
    """NVIDIA has a folder for each; the names of the packages are the same."""
    loaded = load_cluster(described({"model": "gh200", "count": 1}, {"os": os}, {}), "rack")
    assert loaded.cluster is not None, loaded.findings
    software = expand(loaded.cluster, "rack").software
    assert software is not None
    (one,) = software.package_sets.values()
    assert (one.repository, one.repository_arm64) == folders


def test_nvlink_groups_follow_the_row() -> None:
    """A rack has IMEX; a board of four GB200 without NVSwitch has neither IMEX nor Fabric Manager; HGX has Fabric Manager."""
    found = {}
    for model, count in (("gb200", 4), ("gb200-nvl4", 4), ("b200", 8), ("h100", 4)):
        loaded = load_cluster(described({"model": model, "count": count}, {}, {}), "rack")
        assert loaded.cluster is not None, loaded.findings
        groups = expand(loaded.cluster, "rack").groups
        found[model] = [name for name in ("nvswitch", "nvlink_rack", "nvlink") if groups[name]]
    assert found == {"gb200": ["nvlink_rack", "nvlink"], "gb200-nvl4": [], "b200": ["nvswitch", "nvlink"], "h100": []}
