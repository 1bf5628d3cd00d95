"""Questions whose daemon is suspended are answered at once; all other questions are asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster import test_slurm, test_sshd
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.units import _PROCESS_STATES, parse_units
from rackwright.errors import UndeterminedError
from rackwright.remote.programs import commands

CAPTURED = Path(__file__).parents[1] / "captured" / "units"


@pytest.fixture
def process():
    """Return a child process that is stopped by a signal."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    yield child
    child.kill()
    child.wait()


def test_process_state_is_read(process):
    assert (commands.process_state(str(process.pid)), commands.process_state("0")) == ("T", "")
    assert commands.process_state(str(os.getpid())) in ("R", "S")


@pytest.fixture
def shown(monkeypatch):
    """Replace the units that systemd lists."""

    def show(*blocks):
        text = "\n\n".join(f"Id={name}\nMainPID={pid}\nFreezerState={freezer}" for name, pid, freezer in blocks)
        monkeypatch.setattr(commands.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=text.encode()))

    return show


def test_suspended_and_frozen_units_are_found(shown, process):
    shown(("munge.service", process.pid, "running"), ("slurmctld.service", os.getpid(), "frozen"), ("a.service", os.getpid(), "running"))
    assert commands.suspended(["any"]) == {"munge.service", "slurmctld.service"}


@pytest.mark.parametrize("error", [FileNotFoundError("systemctl"), subprocess.TimeoutExpired("systemctl", 5)])
def test_unresponsive_systemd_means_nothing_suspended(monkeypatch, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(commands.subprocess, "run", refuse)
    assert commands.suspended(["munge.service"]) == set()


def test_only_questions_that_need_the_unit_are_held(monkeypatch, capsys):
    monkeypatch.setenv(commands.SLOWNESS, "1")
    monkeypatch.setattr(commands, "suspended", lambda units: {"munge.service"} & set(units))
    monkeypatch.setattr(commands.os, "chdir", lambda _: None)
    asked = [["ping", "sleep 60", 60.0], ["clock", "echo 1", 5.0]]
    commands.main({"seconds": 5.0, "workers": 2, "questions": asked, "needs": {"ping": ["munge.service", "slurmctld.service"]}})
    answers = {line["name"]: line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "name" in line}
    assert (answers["clock"]["out"], answers["ping"]["waits_for"], answers["ping"]["starved_seconds"]) == ("1\n", "munge.service", None)
    assert "not run, because munge.service is suspended" in answers["ping"]["error"]


def test_state_of_main_processes_is_added_to_units(process):
    units = f"Id=a.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID={process.pid}\n\n"
    units += "Id=b.service\nLoadState=loaded\nActiveState=inactive\nUnitFileState=static\nMainPID=0"
    done = subprocess.run(["sh", "-c", f"units='{units}'{_PROCESS_STATES}"], capture_output=True, text=True, check=True)
    found = parse_units(done.stdout)
    assert {name: unit.state for name, unit in found.items()} == {"a.service": "suspended by a signal", "b.service": "inactive"}


def judged(check, case):
    units = parse_units((CAPTURED / f"{case}.txt").read_text(encoding="utf-8"))
    check(lambda _: units, Expect())


def test_suspended_daemon_fails_its_check():
    with pytest.raises(Mismatch, match="expected active, found frozen, starts with the node"):
        judged(test_slurm.test_node_daemon_runs, "suspended")
    judged(test_slurm.test_node_daemon_runs, "good-processes")


def test_suspended_sshd_fails_its_check():
    judged(test_sshd.test_daemon_responds, "suspended")
    text = (CAPTURED / "suspended.txt").read_text(encoding="utf-8")
    units = parse_units(text.replace("MainPID=412\nProcessState=S", "MainPID=412\nProcessState=T"))
    with pytest.raises(Mismatch, match="found suspended by a signal"):
        test_sshd.test_daemon_responds(lambda _: units, Expect())


def test_node_without_sshd_unit_is_unknown():
    units = parse_units(
        "Id=ssh.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n\n" * 2
        + "Id=sshd.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
    )
    with pytest.raises(UndeterminedError, match="systemd shows neither"):
        test_sshd.test_daemon_responds(lambda _: units, Expect())
