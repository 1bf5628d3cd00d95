"""Complete collections over a simulated ssh, and `rackwright hardware` with its exit codes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rackwright.checks.hardware.job import facts_from_output
from rackwright.cli import main
from rackwright.inventory import paths

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"
ONE_ANSWERS = 'case "$*" in *login0*) for last; do :; done; eval "$last";; *) echo "ssh: No route to host" >&2; exit 255;; esac'
"""Simulated ssh: it reaches this machine as one node, and no other node."""


@pytest.fixture
def hardware(tmp_path, monkeypatch, capsys):
    """Run `rackwright hardware` on the golden lab over a given ssh script; return exit code, output, errors."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "110")
    paths.prepare("lab")
    paths.inventory("lab").write_text(INVENTORY.read_text(encoding="utf-8"))
    paths.ssh_config("lab").write_text("")

    def run(script, *arguments):
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tools / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(sys, "argv", ["rackwright", "hardware", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *capsys.readouterr())

    return run


def test_unreachable_nodes_are_reported(hardware):
    code, out, _ = hardware("echo 'ssh: No route to host' >&2; exit 255", "lab")
    assert code == 3
    assert "login0, worker[0-1], storage0  is unreachable: ssh: No route to host" in out
    assert "0 of 4 nodes answered" in out


def test_reachable_node_reports_its_hardware(hardware):
    code, out, _ = hardware(ONE_ANSWERS, "lab", "--json")
    report = json.loads(out)
    nodes = {node["name"]: node for node in report["nodes"]}
    assert (code, report["schema"], report["verdict"]) == (3, "rackwright.hardware/4", "unknown")
    assert nodes["login0"]["facts"]["cpus"]["total"] == os.cpu_count()
    assert nodes["login0"]["facts"]["memory"] > 0
    assert nodes["login0"]["differences"] == [{"subject": "/mnt/sharedfs", "planned": "mounted", "found": "not mounted"}]
    assert "unreachable" in nodes["worker0"]["reason"]


def test_stopped_stack_is_refused(hardware):
    code, _, err = hardware("exit 255", "lab-large")
    assert (code, "is not up" in err) == (2, True)


def test_unknown_section_is_refused(hardware):
    assert hardware("exit 255", "lab", "disks")[0] == 2


def test_unresponsive_submit_node_is_reported(hardware):
    code, out, err = hardware("echo 'ssh: No route to host' >&2; exit 255", "lab", "--in-job")
    assert (code, "login0 is unreachable" in out + err) == (3, True)


def test_failed_job_reports_reason():
    refused = facts_from_output("srun: error: Unable to allocate resources: Requested nodes are busy", ["cpus", "memory"])
    assert refused.unreachable == "no job ran there: error: Unable to allocate resources: Requested nodes are busy"


def test_job_output_is_read():
    lines = [
        {"begun": True},
        {"name": "memory", "rc": 0, "out": "MemTotal: 2097152 kB", "err": "", "error": "", "seconds": 0.1},
        {"end": True},
    ]
    found = facts_from_output("\n".join(map(json.dumps, lines)), ["memory", "cpus"])
    assert (found.facts.memory, list(found.facts.unknown)) == (2048, ["cpus"])
