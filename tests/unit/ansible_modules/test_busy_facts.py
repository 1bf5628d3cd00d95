"""What keeps a package manager busy: states of cloud-init as its versions print them, and locks that another process holds."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import busy_facts
from ansible_collections.rackwright.cluster.plugins.plugin_utils.idle import PROGRESS, wait_until_idle

OLD = """
status: {status}
time: Thu, 26 Nov 2026 08:29:48 +0000
detail:
DataSourceNoCloud [seed=/var/lib/cloud/seed/nocloud-net][dsmode=net]
"""
"""`cloud-init status --long` of 20.4 (Debian 11)."""
NEW = """
status: {status}
extended_status: {extended}
boot_status_code: enabled-by-generator
last_update: Thu, 01 Jan 1970 00:00:10 +0000
detail: DataSourceNoCloud [seed=/dev/vdb][dsmode=net]
errors: []
recoverable_errors: {{}}
"""
"""The same of 23.4 and later, cmd/status.py."""


@pytest.mark.parametrize(
    ("text", "manager", "waits"),
    [
        pytest.param(OLD.format(status="running"), "starting", True, id="old-running"),
        pytest.param(OLD.format(status="running"), "degraded", False, id="old-last-stage-failed"),
        pytest.param(OLD.format(status="running"), "", True, id="old-running-without-manager"),
        pytest.param(OLD.format(status="done"), "running", False, id="old-done"),
        pytest.param(OLD.format(status="error"), "degraded", False, id="old-error"),
        pytest.param(OLD.format(status="disabled"), "running", False, id="old-disabled"),
        pytest.param(OLD.format(status="not run"), "starting", True, id="old-not-run-yet"),
        pytest.param(OLD.format(status="not run"), "running", False, id="old-installed-after-boot"),
        pytest.param(NEW.format(status="running", extended="running"), "starting", True, id="running"),
        pytest.param(NEW.format(status="running", extended="degraded running"), "starting", True, id="degraded-running"),
        pytest.param(NEW.format(status="error", extended="error - running"), "starting", True, id="error-running"),
        pytest.param(NEW.format(status="error", extended="error - done"), "degraded", False, id="error-done"),
        pytest.param(NEW.format(status="done", extended="degraded done"), "running", False, id="degraded-done"),
        pytest.param(NEW.format(status="done", extended="done"), "running", False, id="done"),
        pytest.param(NEW.format(status="disabled", extended="disabled"), "running", False, id="disabled"),
        pytest.param(NEW.format(status="not started", extended="not started"), "initializing", True, id="not-started-yet"),
        pytest.param(NEW.format(status="not started", extended="not started"), "running", False, id="installed-after-boot"),
        pytest.param("", "starting", False, id="no-output"),
    ],
)
def test_first_boot_is_waited_for_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, manager: str, waits: bool
) -> None:
    monkeypatch.setattr(busy_facts.shutil, "which", lambda _: "/usr/bin/cloud-init")
    monkeypatch.setattr(busy_facts, "output", lambda *command: manager if command[0] == "systemctl" else text)
    found = busy_facts.first_boot(str(tmp_path / "result.json"))
    assert bool(found) is waits and (not waits or found.startswith("DataSourceNoCloud [seed="))


def test_ended_first_boot_is_known_from_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program takes seconds on a slow machine."""
    monkeypatch.setattr(busy_facts.shutil, "which", lambda _: "/usr/bin/cloud-init")
    monkeypatch.setattr(busy_facts, "output", lambda *_: pytest.fail("the program was run"))
    (tmp_path / "result.json").touch()
    assert busy_facts.first_boot(str(tmp_path / "result.json")) == ""


def test_machine_without_cloud_init_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(busy_facts.shutil, "which", lambda _: None)
    assert busy_facts.first_boot(str(tmp_path / "result.json")) == ""


def test_exit_code_of_cloud_init_does_not_matter() -> None:
    assert busy_facts.output("sh", "-c", "echo status: done; exit 2") == "status: done\n"
    assert busy_facts.output("/nonexistent/cloud-init") == ""


HOLD = "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


def test_process_that_holds_a_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock-frontend"
    lock.touch()
    monkeypatch.setattr(busy_facts, "LOCKS", (str(tmp_path / "missing"), str(lock)))
    monkeypatch.setattr(busy_facts, "first_boot", lambda: "")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        found = busy_facts.busy()
        assert found["detail"] == f"process {holder.pid} holds {lock}" and found["busy"].startswith("python")
        assert holder.stdin is not None
        holder.stdin.close()
        holder.wait()
    assert busy_facts.busy()["busy"] == ""


def test_query_of_a_lock_takes_none(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    assert busy_facts.lock_holder(str(lock)) == 0
    with lock.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert busy_facts.process_name(os.getpid()) and busy_facts.process_name(2**22 + 1) == "process 4194305"


class Clock:
    """Time that passes only while one sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


CLOUD_INIT = {"busy": "cloud-init", "detail": "Running in stage: modules-final", "hint": "/var/log/cloud-init-output.log on the node"}


def test_waiting_says_for_what_and_how_long() -> None:
    clock, said = Clock(), list[str]()
    answers = iter([CLOUD_INIT, CLOUD_INIT, {"busy": ""}])
    assert wait_until_idle("login0", lambda: next(answers), say=said.append, clock=clock, sleep=clock.sleep) == (10.0, "")
    assert said == [f"{PROGRESS}login0: waits for cloud-init, {seconds} s (Running in stage: modules-final)" for seconds in (0, 5)]


def test_waiting_ends_after_its_limit() -> None:
    clock = Clock()
    waited, problem = wait_until_idle("login0", lambda: CLOUD_INIT, timeout=60, say=lambda _: None, clock=clock, sleep=clock.sleep)
    assert waited == 60.0
    assert problem == (
        "cloud-init has not ended after 60 s (Running in stage: modules-final) - look at /var/log/cloud-init-output.log on the node"
    )


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no Python"}, {"unreachable": True}, {}])
def test_query_that_fails_ends_the_waiting(answer: dict[str, object]) -> None:
    assert wait_until_idle("login0", lambda: answer, say=lambda _: None)[1] == ""
