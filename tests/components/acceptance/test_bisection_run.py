"""The search against a stand-in for the submitting node: jobs, report, output, and the runs that search nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from rackwright.report.acceptance import read
from rackwright.report.acceptance_terminal import show_acceptance

from .conftest import Bench


@pytest.fixture
def reachable(bench: Bench) -> Bench:
    """Return a bench whose workers have addresses of this machine, which no other test has."""
    inventory, own = bench.home / "inventory.yml", os.getpid()
    loopback = f"127.{1 + own % 250}.{own // 250 % 250}"
    inventory.write_text(inventory.read_text().replace('"address": "10.77.0.', f'"address": "{loopback}.'))
    return bench


def test_search_is_recorded_with_its_jobs(reachable: Bench) -> None:
    ended = reachable.run("--bisect")
    assert (ended.status, ended.report["verdict"]) == (0, "passed"), ended.said
    found = ended.report["bisection"]
    assert (found["outcome"], found["nodes"], found["culprits"]) == ("as-planned", ["worker0", "worker1"], [])
    jobs = [job["name"] for job in ended.phase("bisection")["jobs"]]
    assert jobs == [figure["job"] for figures in found["rounds"] for figure in figures]
    assert all(name.startswith(f"rackwright-{ended.report['run']}-13-bisection-r0") for name in reachable.node.jobs)
    assert {check["evidence"] for check in ended.report["checks"]} == {"simulated"}
    assert {item["reason"] for item in ended.report["not_run"]} == {"phase"}
    assert (Path(ended.report["results"]) / "programs" / "all_to_all.py").exists()


def test_search_round_trips_and_is_printed(reachable: Bench) -> None:
    ended = reachable.run("--bisect")
    acceptance = read(reachable.home / "acceptance.partial.json")
    assert acceptance.as_dict() == ended.report
    console = Console(width=80, file=io.StringIO(), color_system=None)
    show_acceptance(acceptance, console)
    text = console.file.getvalue()
    assert "nothing found: all nodes together are as planned" in text and "(simulated fabric)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_busy_node_is_left_out_and_named(reachable: Bench) -> None:
    reachable.node.answer("states", "worker0 idle none\nworker1 allocated none\n")
    ended = reachable.run("--bisect")
    assert ended.status == 3
    assert (ended.report["bisection"]["outcome"], ended.report["bisection"]["left_out"]) == ("undetermined", {"worker1": "node-busy"})
    assert {check["node"]: check["reason"] for check in ended.report["checks"]} == {
        "worker0": "a collective needs two idle nodes",
        "worker1": "node-busy",
    }
    assert reachable.node.jobs == []


def test_passed_phase_leaves_nothing_to_search(reachable: Bench) -> None:
    ended = reachable.run("--bisect", "--phase", "task-placement")
    assert (ended.status, "bisection" in ended.report) == (0, False)
    assert [(phase["name"], phase["state"]) for phase in ended.report["phases"]] == [("task_placement", "ran"), ("bisection", "not-run")]
    assert ended.phase("bisection")["reason"] == "the requested phases passed: there is nothing to search"
    assert not any("bisection" in job for job in reachable.node.jobs)


def test_search_follows_phase_that_did_not_pass(reachable: Bench) -> None:
    ended = reachable.run("--bisect", "--phase", "nccl")
    assert [(phase["name"], phase["state"]) for phase in ended.report["phases"]] == [("nccl", "skipped"), ("bisection", "ran")]


def test_progress_names_groups_of_each_round(reachable: Bench) -> None:
    said = subprocess.run(reachable.command("--bisect"), capture_output=True, text=True, check=False, env=reachable.environment).stdout
    texts = [json.loads(line).get("text", "") for line in said.splitlines()]
    assert texts[1] == "bisection round 1: worker0, worker1"
