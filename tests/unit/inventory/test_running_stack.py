"""Commands about a stack that is up: `status` and `ssh`, on files as a run leaves them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rackwright.cli import main
from rackwright.inventory import paths
from rackwright.inventory.reader import load

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


def document(verdict: str, started: str, reason: str = "") -> str:
    """A report of one result."""
    plan = load(INVENTORY).plan
    check = {
        "id": "slurm.node_daemon_runs[worker1]",
        "kind": "passive",
        "node": "worker1",
        "subject": "slurm",
        "verdict": verdict,
        "reason": reason,
        "evidence": "real",
        "expected": "active",
        "found": "inactive" if reason else "active",
        "remedy": "",
        "seconds": 0.1,
    }
    node = {"name": "worker1", "state": "in", "checks": 1, "verdict": verdict, "reason": "", "until": None}
    totals = {"passed": 0, "failed": 0, "skipped": 0, "unknown": 0, verdict: 1}
    report = {"schema": "rackwright.report/1", "stack": "lab", "plan": plan, "level": "smoke", "started": started, "seconds": 1.0}
    return json.dumps({**report, "nodes": [node], "checks": [check], "not_run": [], "totals": totals, "verdict": verdict})


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stack lab, up and passed."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.refresh_report("lab").parent.mkdir(parents=True)
    paths.inventory("lab").write_text(INVENTORY.read_text())
    paths.report("lab").write_text(document("passed", "2026-11-21T10:00:00+00:00"))
    return tmp_path / "lab"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, str, str]]:
    """Run a command in this process: exit code, output, errors."""

    def once(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["rackwright", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *capsys.readouterr())

    return once


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that took this process's place."""
    argv: list[str] = []

    def instead(_: str, words: list[str]) -> None:
        argv.extend(words)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execvp", instead)
    return argv


def test_the_verdict_on_record(lab, run):
    code, out, _ = run("status", "lab")
    assert code == 0 and "passed, 1 node; verified" in out


def test_what_a_later_refresh_found_wrong_is_the_status(lab, run):
    """`pulumi refresh` told of more than it lists, and sends its reader here."""
    paths.refresh_report("lab").write_text(document("failed", "2026-11-21T10:05:00+00:00", "it is down"))
    code, out, _ = run("status", "lab")
    assert code == 1 and "slurm.node_daemon_runs" in out and "inactive" in out
    assert json.loads(run("status", "lab", "--json")[1])["verdict"] == "failed"


@pytest.mark.parametrize("later", [("failed", "2026-11-21T09:55:00+00:00"), ("passed", "2026-11-21T10:05:00+00:00")])
def test_an_earlier_or_a_good_refresh_takes_nothing_back(lab, run, later):
    paths.refresh_report("lab").write_text(document(*later))
    code, out, _ = run("status", "lab")
    assert code == 0 and "verified" in out


def test_a_login_is_ssh_with_the_stack_s_configuration(lab, run, executed):
    run("ssh", "lab", "worker1")
    assert executed == ["ssh", "-F", str(paths.ssh_config("lab")), "worker1"]


def test_options_after_the_node_are_the_command_s(lab, run, executed):
    run("ssh", "lab", "login0", "sinfo", "-N", "--help")
    assert executed[-4:] == ["login0", "sinfo", "-N", "--help"]


@pytest.mark.parametrize("user", ["alice", "root"])
def test_a_user_of_the_cluster_needs_no_key(lab, run, executed, user):
    run("ssh", "lab", f"{user}@login0", "srun", "-N2", "hostname")
    assert executed[-7:] == ["login0", "sudo", "runuser", "-l", user, "-c", "'srun -N2 hostname'"]


@pytest.mark.parametrize(("where", "words"), [("alise@login0", "did you mean `alice`"), ("logn0", "did you mean `login0`")])
def test_a_name_that_is_none_is_bad_input(lab, run, where, words):
    code, _, err = run("ssh", "lab", where)
    assert code == 2 and words in err


_ASKING = ("verify", "acceptance", "drift", "drift-history", "status", "hardware", "drift-schedule", "inventory", "rolling-update")
"""Commands that ask a stack that is up."""


@pytest.mark.parametrize("command", _ASKING)
@pytest.mark.parametrize(
    ("stack", "cause", "hint"),
    [
        ("lab-larg", "unknown stack `lab-larg`", "did you mean `lab-large`?"),
        ("stacks/Pulumi.lab.yaml", "is a file", "use `lab`"),
        ("lab-large", "is not up", "run `rackwright up lab-large`"),
    ],
)
def test_a_stack_that_is_not_up_is_no_typo_and_a_typo_is_no_stack(
    lab: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, command: str, stack: str, cause: str, hint: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    code, _, err = run(command, stack, *(["--nodes", "worker0"] if command == "rolling-update" else []))
    told = " ".join(err.split())
    assert (code, cause in told, hint in told) == (2, True, True), err
