"""`rackwright hardware` on a lab: every node in one round, simulated parts labelled, a lost GPU reported, also from inside a job."""

from __future__ import annotations

import json
from typing import Any

from support.project import Project


def hardware_report(project: Project, status: int, *options: str) -> dict[str, Any]:
    """Return the report of one run."""
    said = project.rackwright("hardware", project.stack, *options, "--json")
    assert said.status == status, said.output
    found: dict[str, Any] = json.loads(said.output)
    return found


def test_hardware_report_covers_nodes_and_labels_simulation(healthy: Project) -> None:
    report = hardware_report(healthy, 0)
    assert (report["verdict"], report["totals"]["nodes"]) == ("passed", {"planned": 4, "found": 4})
    assert report["totals"]["gpus"] == {"planned": 16, "found": 16}
    assert {"gpus", "cpus", "memory"} <= set(report["simulated"])
    assert report["totals"]["cpus"]["found"] is None, "the nodes of a lab have no CPUs of their own"
    assert all(
        mount in {one["point"] for one in node["facts"]["mounts"]} for node in report["nodes"] for mount in node["planned"]["mounts"]
    )


def test_hardware_reports_missing_gpu(healthy: Project) -> None:
    assert [node["name"] for node in hardware_report(healthy, 0, "gpu", "--in-job")["nodes"]] == ["worker0", "worker1"]
    healthy.ssh("worker1", "rackwright-gpu-fault missing 3")
    try:
        for options in ((), ("gpu",)):  # No job is scheduled on such a node: it drains itself.
            differing = {
                node["name"]: node["differences"] for node in hardware_report(healthy, 1, *options)["nodes"] if node["differences"]
            }
            assert differing == {"worker1": [{"subject": "GPUs", "planned": "8", "found": "7"}]}
    finally:
        healthy.ssh("worker1", "rackwright-gpu-fault clear && rackwright-node-health")
