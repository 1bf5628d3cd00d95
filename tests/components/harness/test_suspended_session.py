"""A whole run over nodes with a daemon that is stopped or suspended: one result names the daemon, and what follows from it is skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS

PROJECT = Path(__file__).parents[3]
GOLDEN = PROJECT / "tests" / "golden" / "inventory" / "inventory.yml"
NODE = """#!{python}
import json, pathlib, shlex, sys, time
host, request = sys.argv[-2], json.loads(shlex.split(sys.argv[-1])[-1])
told = json.loads(pathlib.Path({answers!r}).read_text())
blank = {{"rc": 0, "out": "", "err": "", "error": "", "starved_seconds": None, "seconds": 0.1, "waits_for": ""}}
print(json.dumps({{"begun": True, "slowness": 1}}), flush=True)
hangs = False
for name, _, _ in request["questions"]:
    answer = told.get(host, {{}}).get(name, told["*"].get(name, {{}}))
    stopped = [unit for unit in request.get("needs", {{}}).get(name, ()) if unit in told.get(host, {{}}).get("suspended", ())]
    if stopped:
        answer = {{"error": name + ": not asked", "waits_for": stopped[0]}}
    if answer == "hangs":
        hangs = True
    else:
        print(json.dumps({{**blank, **answer, "name": name}}), flush=True)
if hangs:
    time.sleep({endless})
print('{{"end": true}}')
"""
NO_SOURCE = {"rc": 1, "err": "scontrol: fatal: Could not establish a configuration source"}


def units(**states):
    """The answer to the question on units: `active`, another state of systemd, or `T` for a daemon that a signal has stopped."""
    blocks = []
    for name, state in {"munge": "active", **states}.items():
        active, process = ("active", "T") if state == "T" else (state, "S")
        blocks.append(
            f"Id={name}.service\nLoadState=loaded\nActiveState={active}\nUnitFileState=enabled\nMainPID=7\nProcessState={process}"
        )
    return {"out": "\n\n".join(blocks) + "\n"}


@pytest.fixture
def report(tmp_path):
    """Run the passive checks over nodes that answer so; the report's checks by id."""

    def run(**answers):
        home, tools = tmp_path / "home" / "lab", tmp_path / "tools"
        home.mkdir(parents=True)
        tools.mkdir()
        (home / "inventory.yml").write_text(
            GOLDEN.read_text(encoding="utf-8").replace("10.77.0.", "192.0.2.").replace("127.0.0.1", "192.0.2.1")
        )
        (home / "ssh_config").write_text("")
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        script = NODE.format(python=sys.executable, answers=str(tmp_path / "answers.json"), endless=ENDLESS_SECONDS)
        for name, text in (("ssh", script), ("podman", "#!/bin/sh\nexit 1\n")):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        where = (
            "--inventory",
            home / "inventory.yml",
            "--ssh-config",
            home / "ssh_config",
            "--results",
            home / "results",
            "--level",
            "checks",
        )
        command = [sys.executable, "-P", "-m", "rackwright.checks.cluster", *map(str, where)]
        environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "RACKWRIGHT_SLOWNESS": "1",
            "PYTHONPATH": str(PROJECT / "infra"),
        }
        subprocess.run(command, capture_output=True, timeout=HANG_SECONDS, check=False, env=environment)
        return {one["id"]: one for one in json.loads((home / "report.json").read_text(encoding="utf-8"))["checks"]}

    return run


def verdicts(checks, *ids):
    return [(checks[one]["verdict"], checks[one]["found"]) for one in ids]


def test_what_follows_from_stopped_slurmd_is_skipped(report):
    found = report(
        **{
            "*": {"slurm-ping": NO_SOURCE},
            "login0": {"units": units(slurmctld="active")},
            "worker0": {"units": units(slurmd="active")},
            "worker1": {"units": units(slurmd="inactive")},
        }
    )
    cause = "slurmd.service is inactive on worker1: slurm.node_daemon_runs[worker1]"
    assert found["slurm.node_daemon_runs[worker1]"]["verdict"] == "failed"
    asked = ("slurm.controller_answers_here[{}]", "slurm.configuration_is_the_same_everywhere[{}]")
    assert verdicts(found, *(one.format("worker1") for one in asked)) == [("skipped", cause)] * 2
    assert [verdict for verdict, _ in verdicts(found, *(one.format("worker0") for one in asked))] == ["unknown"] * 2


def test_what_follows_from_suspended_slurmctld_is_skipped(report):
    found = report(
        **{
            "*": {"slurm-ping": "hangs"},
            "login0": {"units": units(slurmctld="T", slurmdbd="active", mariadb="active"), "suspended": ["slurmctld.service"]},
            "worker0": {"units": units(slurmd="active")},
            "worker1": {"units": units(slurmd="active"), "clock": "hangs"},
        }
    )
    cause = "slurmctld.service is suspended by a signal on login0: slurm.controller_runs[login0]"
    assert found["slurm.controller_runs[login0]"]["verdict"] == "failed"
    follows = ("slurm.controller_answers_here[worker0]", "slurm.node_is_usable[worker0]", "slurm.partitions_match_plan[login0]")
    assert verdicts(found, *follows) == [("skipped", cause)] * 3
    assert found["slurm.node_daemon_runs[worker0]"]["verdict"] == "passed"
    # A node that also does not answer another question is waited for, and that question stays unknown.
    assert found["node.clock_synchronized[worker1]"]["verdict"] == "unknown"
