"""Questions whose daemon is suspended are answered at once; all other questions are asked."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rackwright.checks.cluster import test_slurm, test_sshd
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.units import parse_units
from rackwright.errors import UndeterminedError
from rackwright.remote.programs import commands

CAPTURED = Path(__file__).parents[1] / "captured" / "units"


def test_only_questions_that_need_the_unit_are_held(monkeypatch, capsys):
    monkeypatch.setenv(commands.SLOWNESS, "1")
    monkeypatch.setattr(commands, "suspended", lambda units: {"munge.service": "frozen"} if "munge.service" in units else {})
    monkeypatch.setattr(commands.os, "chdir", lambda _: None)
    asked = [["ping", "sleep 60", 60.0], ["clock", "echo 1", 5.0]]
    commands.main({"seconds": 5.0, "workers": 2, "questions": asked, "needs": {"ping": ["munge.service", "slurmctld.service"]}})
    answers = {line["name"]: line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "name" in line}
    assert (answers["clock"]["out"], answers["ping"]["waits_for"], answers["ping"]["starved_seconds"]) == ("1\n", "munge.service", None)
    assert "not run, because munge.service is suspended" in answers["ping"]["error"]


def test_command_that_hangs_ends(tmp_path):
    """A file server that does not respond holds its own command only, and nothing of it stays behind."""
    started = time.monotonic()
    answer = commands.ask("df", f"echo $$ > {tmp_path}/group; sleep 60 & sleep 60", 0.3, started + 5)
    assert answer["error"].startswith("df: no answer within") and not answer["out"]
    assert time.monotonic() - started < 5
    group = int((tmp_path / "group").read_text())
    for _ in range(50):  # the killed processes are reaped by init
        if not any(state_of(pid) not in ("Z", "") for pid in members_of(group)):
            break
        time.sleep(0.05)
    assert [pid for pid in members_of(group) if state_of(pid) not in ("Z", "")] == []


def members_of(group):
    """Return the processes of a process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(int(folder.name))
    return found


def state_of(pid):
    """Return the state of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_static_pod_is_named_as_such():
    assert commands.not_run("kubernetes-nodes", "etcd.pod")["error"].endswith("because static pod etcd is suspended on this node")


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
