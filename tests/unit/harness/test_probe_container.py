"""The container of an external probe is removed in every case, by this check or by the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rackwright.checks.cluster.harness import probe_container
from rackwright.errors import UndeterminedError


def row(name, state="running", **labels):
    return {"Id": name, "ImageID": f"image-{name}", "State": state, "Labels": {"rackwright.stack": "lab", **labels}}


def owned(name, owner, state="running"):
    return row(name, state, **{probe_container.EPHEMERAL: "check", probe_container.OWNER: owner})


@pytest.fixture
def engine(monkeypatch):
    """Return podman's containers and the commands it received."""
    state = {"containers": [row("lab-login0")], "commands": [], "run": lambda: "10.0.0.1 SSH-2.0-x\n"}

    def podman(arguments):
        state["commands"].append(arguments)
        if arguments[0] == "ps":
            return json.dumps(state["containers"])
        return state["run"]() if arguments[0] == "run" else ""

    monkeypatch.setattr(probe_container, "_podman", podman)
    return state


def removed(engine):
    return [name for command in engine["commands"] if command[0] == "rm" for name in command if name.startswith("lab-")]


def ended_process():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = probe_container.identify(child.pid)
    child.communicate(b"\n")
    return identity


def test_container_has_label_of_owner_and_time_limit(engine):
    assert probe_container.run_in_container("lab", ["-c", "pass"]) == "10.0.0.1 SSH-2.0-x\n"
    run = engine["commands"][-1]
    assert run[0] == "run" and run[-3:] == ["image-lab-login0", "-c", "pass"]
    assert f"{probe_container.OWNER}={probe_container.identify(os.getpid())}" in run and "rackwright.stack=lab" in run
    assert float(run[run.index("--timeout") + 1]) >= 30
    assert removed(engine) == []


@pytest.mark.parametrize("state", ["created", "initialized", "running", "exited"])
def test_next_check_removes_container_of_killed_check(engine, state):
    engine["containers"].append(owned("lab-check-1", ended_process(), state))
    probe_container.run_in_container("lab", [])
    assert removed(engine) == ["lab-check-1"]


def test_container_of_running_check_remains(engine):
    engine["containers"].append(owned("lab-check-1", probe_container.identify(os.getpid())))
    probe_container.run_in_container("lab", [])
    assert removed(engine) == []


@pytest.mark.parametrize("owner", ["", "PID@1", "x@1"])
def test_process_with_same_number_is_no_owner(owner):
    assert probe_container.is_abandoned(owned("lab-check-1", owner.replace("PID", str(os.getpid()))))


def test_node_is_never_abandoned():
    assert not probe_container.is_abandoned(row("lab-login0")) and not probe_container.is_abandoned({**row("x"), "Labels": None})


@pytest.mark.parametrize("error", [KeyboardInterrupt, UndeterminedError])
def test_interrupted_probe_removes_its_container(engine, error):
    def fail():
        raise error("podman run: timed out after 30 s")

    engine["run"] = fail
    with pytest.raises(error):
        probe_container.run_in_container("lab", [])
    (run,) = [command for command in engine["commands"] if command[0] == "run"]
    assert removed(engine) == [run[run.index("--name") + 1]]


def test_stack_without_running_node_is_unknown(engine):
    engine["containers"] = [row("lab-login0", "exited"), owned("lab-check-1", "1@1")]
    with pytest.raises(UndeterminedError, match="no container of stack lab runs"):
        probe_container.run_in_container("lab", [])
