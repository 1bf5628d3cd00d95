"""The states of daemons are read from the kernel, without a time-out that depends on the speed of the node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.probes.units import parse_suspended, parse_units
from rackwright.remote.programs import daemon_states

MAIN = {"Id": "a.service", "MainPID": "10", "ControlGroup": "/system.slice/a.service", "ActiveState": "active"}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(daemon_states, "PAUSE", 0)


@pytest.fixture
def process():
    """Return a child process that is stopped by a signal."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    yield child
    child.kill()
    child.wait()


def test_state_of_a_process_is_read(process):
    assert (daemon_states.process_state(str(process.pid)), daemon_states.process_state("0")) == ("T", "")
    assert daemon_states.process_state(str(os.getpid())) in ("R", "S")


def test_traced_process_is_not_suspended(monkeypatch):
    """strace(1) stops a process at each system call."""
    readings = iter([("t", "1"), ("S", "1")])
    monkeypatch.setattr(daemon_states, "status_of", lambda _: next(readings))
    assert daemon_states.process_state("7") == "S"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return a function that adds a process to /proc, and to a control group."""
    monkeypatch.setattr(daemon_states, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(daemon_states, "GROUPS", str(tmp_path / "cgroup"))
    monkeypatch.setattr(daemon_states, "MANIFESTS", str(tmp_path / "manifests"))

    def add(pid, state="S", parent=1, exe="/usr/sbin/a", words="a", network="net:[1]", group="/system.slice/a.service", frozen=0):
        folder, members = tmp_path / "proc" / str(pid), tmp_path / "cgroup" / group.strip("/")
        (folder / "ns").mkdir(parents=True)
        members.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{pid} (a (b) c) {state} {parent} {pid} 0\n")
        (folder / "cmdline").write_bytes(words.replace(" ", "\0").encode() + b"\0")
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "exe").symlink_to(exe)
        (folder / "ns" / "net").symlink_to(network)
        with (members / "cgroup.procs").open("a") as file:
            file.write(f"{pid}\n")
        (members / "cgroup.events").write_text(f"populated 1\nfrozen {frozen}\n")

    add(1, group="/init.scope", words="/sbin/init")
    return add


@pytest.mark.parametrize(
    ("child", "state"),
    [
        ({"state": "T", "parent": 10}, "T"),
        ({"state": "S", "parent": 10}, "S"),
        ({"state": "T", "parent": 10, "exe": "/usr/sbin/slurmstepd"}, "S"),
        ({"state": "T", "parent": 1}, "S"),
    ],
    ids=["a part of the daemon", "a part that runs", "a job", "a process of another parent"],
)
def test_suspended_part_of_a_daemon_suspends_the_unit(kernel, child, state):
    kernel(10)
    kernel(11, **child)
    assert daemon_states.unit_state(MAIN) == state


def test_suspended_session_is_not_the_ssh_server(kernel):
    kernel(10)
    kernel(11, state="T", parent=10)
    assert daemon_states.unit_state({**MAIN, "Id": "ssh.service"}) == "S"


def test_suspended_main_process_suspends_the_unit(kernel):
    kernel(10, state="T")
    assert daemon_states.unit_state(MAIN) == "T"


@pytest.mark.parametrize(("states", "found"), [("TT", "T"), ("TS", ""), ("SS", "")])
def test_unit_without_main_process_is_suspended_if_all_processes_are(kernel, states, found):
    for pid, state in enumerate(states, 10):
        kernel(pid, state=state)
    assert daemon_states.unit_state({**MAIN, "MainPID": "0"}) == found


def test_unit_without_process_has_no_state(kernel):
    assert daemon_states.unit_state({"Id": "b.service", "MainPID": "0", "ControlGroup": ""}) == ""


PODS = {"group": "/kubepods.slice/pod1", "words": "etcd --name=k0"}


def pods(kernel, *, etcd):
    kernel(20, **PODS, **etcd)
    (found,) = daemon_states.pods(["etcd"])
    return parse_units("".join(f"{key}={value}\n" for key, value in found.items()))["etcd.pod"].state


@pytest.mark.parametrize(
    ("etcd", "state"),
    [({}, "active"), ({"state": "T"}, "suspended by a signal"), ({"state": "t"}, "suspended by a debugger"), ({"frozen": 1}, "frozen")],
)
def test_state_of_a_static_pod(kernel, etcd, state):
    assert pods(kernel, etcd=etcd) == state


def test_process_in_a_network_of_its_own_is_another_pod(kernel, tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "etcd.yaml").write_text("{}")
    assert pods(kernel, etcd={"network": "net:[2]", "state": "T"}) == "inactive"


def test_pod_that_is_being_replaced_runs(kernel):
    kernel(21, **PODS)
    assert pods(kernel, etcd={"state": "T"}) == "active"


def test_node_without_manifest_has_no_such_pod(kernel):
    (found,) = daemon_states.pods(["etcd"])
    assert (found["LoadState"], found["ActiveState"]) == ("not-found", "inactive")


@pytest.fixture
def shown(monkeypatch):
    """Replace what systemctl prints."""

    def show(*blocks, status=0):
        text = "\n\n".join(f"Id={name}\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n{rest}" for name, rest in blocks)
        done = SimpleNamespace(stdout=text.encode(), stderr=b"Failed to connect to bus\n", returncode=status)
        monkeypatch.setattr(daemon_states.subprocess, "run", lambda *_, **__: done)

    return show


def test_suspended_and_frozen_units_are_reported(shown, process):
    own = os.getpid()
    shown(
        ("munge.service", f"MainPID={process.pid}"), ("a.service", f"MainPID={own}\nFreezerState=frozen"), ("b.service", f"MainPID={own}")
    )
    found = {"munge.service": "suspended by a signal", "a.service": "frozen"}
    assert daemon_states.suspended(["any"]) == found
    answer = daemon_states.main({"units": ["*.service"], "report": "suspended"})
    assert parse_suspended(json.dumps(answer)) == found


def test_blocks_have_the_form_of_systemctl(shown, process, capsys):
    shown(("munge.service", f"MainPID={process.pid}"), ("b.service", "MainPID=0"))
    daemon_states.main({"units": ["any"], "report": "blocks"})
    found = parse_units(capsys.readouterr().out)
    assert {name: unit.state for name, unit in found.items()} == {"munge.service": "suspended by a signal", "b.service": "active"}


@pytest.mark.parametrize("error", [FileNotFoundError("systemctl"), subprocess.TimeoutExpired("systemctl", 5)])
def test_unresponsive_systemd_is_no_answer(monkeypatch, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(daemon_states.subprocess, "run", refuse)
    assert daemon_states.suspended(["munge.service"]) == {}
    for report in ("suspended", "blocks"):
        with pytest.raises(SystemExit, match="systemctl"):
            daemon_states.main({"units": ["munge.service"], "report": report})


def test_failed_systemctl_is_no_answer(shown):
    shown(status=1)
    with pytest.raises(SystemExit, match="systemctl show: Failed to connect to bus"):
        daemon_states.main({"units": ["munge.service"], "report": "suspended"})
