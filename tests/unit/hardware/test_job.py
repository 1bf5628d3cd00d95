"""Collections from inside jobs, over simulated ssh and Slurm, on clusters of any size."""

from __future__ import annotations

import json
import os

import pytest
from support.programs import edit_program

from rackwright.checks.hardware.job import collect_in_jobs
from rackwright.inventory.reader import from_inventory
from rackwright.report.hardware.facts import Part

TOOLS = {
    "ssh": 'for last; do :; done; eval "$last"',
    "sudo": 'exec "$@"',
    "runuser": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
}
RUNS = 'echo "$*" | head -1 >> "$ASKED"; while [ "$1" != python3 ]; do shift; done; exec "$@"'
"""Simulated srun on this machine."""
SAYS = "echo '{}'".format(json.dumps({"name": "memory", "rc": 0, "out": "MemTotal: 2097152 kB", "err": "", "error": "", "seconds": 0.1}))


@pytest.fixture
def cluster(tmp_path, monkeypatch, inventory):
    """Return an inventory with so many workers, reached as an ordinary user, with a given srun."""

    def make(workers, srun):
        for name, body in {**TOOLS, "srun": srun}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        # Nodes search tools in fixed folders; the test's folder precedes them.
        edit_program(monkeypatch, "commands", lambda text: text.replace("/usr/local/sbin:", f"{tmp_path}:/usr/local/sbin:"))
        monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
        everything = inventory["all"]
        record = everything["hosts"]["worker0"]["node"]
        names = [f"worker{index}" for index in range(workers)]
        everything["hosts"] = {name: {"node": {**record, "name": name, "user": "admin"}} for name in ("login0", *names)}
        everything["children"] = {"nodes": {"hosts": dict.fromkeys(everything["hosts"])}, "gpu": {"hosts": dict.fromkeys(names)}, "out": {}}
        scheduler = everything["vars"]["cluster"]["scheduler"]
        scheduler["nodes"] = [{"name": name, "gpus": 8} for name in names]
        scheduler["partitions"][0]["nodes"] = names
        return from_inventory(inventory)

    return make


def test_every_node_is_queried_in_its_own_job(cluster, tmp_path):
    found = collect_in_jobs(cluster(3, RUNS), tmp_path / "ssh_config", list(Part))
    assert sorted(found) == ["worker0", "worker1", "worker2"]
    assert {seen.facts.cpus.total for seen in found.values()} == {os.cpu_count()}
    commands = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    assert sorted(words[words.index("-w") + 1] for words in commands) == sorted(found)
    assert all({"--partition=gpu", "--gres=gpu:8", "--exclusive"} <= set(words) for words in commands)


def test_hundreds_of_nodes_fit_into_one_command(cluster, tmp_path):
    found = collect_in_jobs(cluster(256, SAYS), tmp_path / "ssh_config", list(Part))
    assert {seen.facts.memory for seen in found.values()} == {2048}
    assert len(found) == 256
