"""`rackwright chaos` beside a training run in a lab: a killed rank, a killed node, a restarted slurmctld, and a killed command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from support.project import Project

from rackwright.report.schemas import schema_errors

_MOST = 900.0
"""Seconds after which a state counts as absent."""


def command(lab: Project, *words: str) -> subprocess.Popen[str]:
    """Start a command of the product."""
    return lab.start([sys.executable, "-m", "rackwright.cli.main", *words])


def records(lab: Project) -> list[dict[str, Any]]:
    """Return the recorded runs, the oldest first."""
    found = [json.loads(file.read_text()) for file in sorted((lab.home / lab.stack / "chaos").glob("chaos-*.json"))]
    assert [schema_errors("chaos", one) for one in found] == [[]] * len(found)
    return found


def test_run_survives_three_events(lab: Project, training: subprocess.Popen[str]) -> None:
    for mode, node in (("rank_kill", "worker1"), ("node_kill", "worker1"), ("scheduler_restart", "login0")):
        said = lab.rackwright("chaos", lab.stack, "--mode", mode, "--target", node, "--seed", "1")
        assert said.ok, said.end
        (event,) = records(lab)[-1]["events"]
        assert (event["mode"], event["verdict"], event["recovered"], event["clean"]) == (mode, "passed", True, True)
        assert event["run"] and event["undone"] >= event["injected"]
    rank, node_, scheduler = (one["events"][0] for one in records(lab)[-3:])
    assert rank["target"]["pid"] and "training job" in [by["by"] for by in rank["detected_by"]] and rank["resumed_from"] is not None
    assert node_["undone_by"] == "command" and 15 < node_["undone"] - node_["injected"] < 300
    assert scheduler["steps_lost"] == 0
    said = lab.ssh("login0", "journalctl --no-pager -t CHAOS")
    assert said.output.count("undone by") == 3 and f"{node_['id']} node_kill: undone by command" in said.output
    assert "rank_kill" in lab.rackwright("chaos", lab.stack, "--score").output


def test_watchdog_starts_node_of_killed_command(lab: Project) -> None:
    child = command(lab, "chaos", lab.stack, "--mode", "node_kill", "--target", "worker1")
    until = time.monotonic() + _MOST
    while not any(one["events"] and one["events"][0]["injected"] and one["ended"] is None for one in records(lab)):
        assert time.monotonic() < until and child.poll() is None, child.communicate()[0]
        time.sleep(0.5)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    while lab.run(["podman", "inspect", "--format", "{{.State.Running}}", f"{lab.stack}-worker1"]).output.strip() != "true":
        assert time.monotonic() < until, "the node was not started"
        time.sleep(1)
    assert lab.rackwright("chaos", lab.stack, "--undo").ok
    assert records(lab)[-1]["events"][0]["undone_by"] == "watchdog" and records(lab)[-1]["verdict"]["result"] == "unknown"
    until = time.monotonic() + _MOST
    while (said := lab.rackwright("drift", lab.stack)).status:
        assert time.monotonic() < until, said.end
