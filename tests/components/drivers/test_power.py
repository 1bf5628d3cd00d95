"""Selection of the nodes that a command needs, and the number of requests to Slurm."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hang import HANG_SECONDS

from rackwright.drivers import power as driver
from rackwright.drivers.power import PowerSavingNodes, wake_nodes
from rackwright.drivers.process import CompletedProcess
from rackwright.remote.command import AS_ROOT

SAVING = {"idle_s": 300, "suspend_timeout_s": 30, "resume_timeout_s": 60, "nodes": ["worker0", "worker1"]}
SCHEDULER: dict[str, Any] = {"controllers": ["ctl0", "ctl1"], "power_saving": SAVING}

SCONTROL = r"""#!/bin/sh
# A slurmctld: one node's state a line. A node that is on its way is a step further after every fourth look.
cd "{folder}"
case "$*" in
'--oneliner show nodes')
    [ -s nodes ] || {{ echo 'Unable to contact slurm controller' >&2; exit 1; }}
    while read -r name state; do
        echo "NodeName=$name Arch=x86_64 CPUTot=2 State=$state ThreadsPerCore=1 Reason=it said State=DOWN [root@2026-11-21T16:00:00]"
    done <nodes
    echo look >>looks
    [ $(($(wc -l <looks) % 4)) -ne 0 ] ||
        sed -i 's/+POWERING_UP$//; s/+POWERED_DOWN+POWER_UP$/+POWERING_UP/; s/+POWERING_DOWN$/+POWERED_DOWN/' nodes ;;
update*)
    echo "$*" >>told
    [ "$3" != State=POWER_UP ] ||
        for one in $(echo "$2" | sed 's/NodeName=//; s/,/ /g'); do sed -i "s/^$one .*/&+POWER_UP/" nodes; done ;;
esac
"""


@pytest.fixture
def wake(tmp_path: Path) -> Callable[..., tuple[int, list[str], list[str]]]:
    """Return a function that runs the controller's script on nodes in these states: exit status, output, Slurm's calls."""
    (tmp_path / "scontrol").write_text(SCONTROL.format(folder=tmp_path))
    (tmp_path / "scontrol").chmod(0o755)

    def run(states: dict[str, str], nodes: str = "worker0,worker1", patience: int = 600) -> tuple[int, list[str], list[str]]:
        (tmp_path / "nodes").write_text("".join(f"{name} {state}\n" for name, state in states.items()))
        for file in ("told", "looks"):
            (tmp_path / file).write_text("")
        script = driver._WAKE.replace("/run/rackwright-wake", str(tmp_path / "lock"))
        assert script.count("sleep 0.5\n") == 1
        script = script.replace("sleep 0.5\n", "sleep 0.01\n")
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", script, "wake", nodes, str(patience)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=HANG_SECONDS,
        )
        return done.returncode, done.stdout.splitlines(), (tmp_path / "told").read_text().splitlines()

    return run


Wake = Callable[..., tuple[int, list[str], list[str]]]


def test_stack_without_power_saving_has_no_nodes() -> None:
    assert PowerSavingNodes.of({**SCHEDULER, "power_saving": None}) is None
    assert PowerSavingNodes.of({**SCHEDULER, "power_saving": {**SAVING, "nodes": []}}) is None
    assert PowerSavingNodes.of(SCHEDULER, only=["login0"]) is None


def test_power_saving_selects_requested_nodes() -> None:
    assert PowerSavingNodes.of(SCHEDULER) == PowerSavingNodes("ctl0", ("worker0", "worker1"), idle_s=300, cycle_s=90)
    assert PowerSavingNodes.of(SCHEDULER, only=["login0", "worker1"]) == PowerSavingNodes("ctl0", ("worker1",), idle_s=300, cycle_s=90)


def test_suspended_controller_is_not_queried(wake: Wake, tmp_path: Path) -> None:
    """scontrol would wait for slurmctld, for MessageTimeout at each call."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ncase $4 in slurmctld) echo {child.pid};; *) echo 0;; esac\n")
    (tmp_path / "systemctl").chmod(0o755)
    try:
        status, said, told = wake({"worker0": "IDLE+POWERED_DOWN"})
    finally:
        child.kill()
        child.wait()
    assert (status, said, told) == (1, ["slurmctld.service is suspended by a signal"], [])
    assert not (tmp_path / "looks").read_text()


def test_powered_down_node_is_resumed_once(wake: Wake) -> None:
    assert wake({"worker0": "IDLE+POWERED_DOWN", "worker1": "ALLOCATED"}) == (
        0,
        ["resumed worker0"],
        ["update NodeName=worker0 State=POWER_UP"],
    )


def test_powering_down_node_is_resumed_afterwards(wake: Wake) -> None:
    """Slurm treats a node that is powering down as one that is up, and drops the request."""
    status, said, told = wake({"worker0": "IDLE+POWERING_DOWN", "worker1": "DOWN+POWERED_DOWN"})
    assert status == 0 and sorted(said) == ["resumed worker0", "resumed worker1"]
    assert sorted(told) == ["update NodeName=worker0 State=POWER_UP", "update NodeName=worker1 State=POWER_UP"]


@pytest.mark.parametrize("state", ["IDLE+POWERING_UP", "IDLE+POWERED_DOWN+POWER_UP"])
def test_powering_up_node_gets_no_request(wake: Wake, tmp_path: Path, state: str) -> None:
    """A second request would make the node boot once more."""
    assert wake({"worker0": state, "worker1": "MIXED"}) == (0, [], [])
    assert (tmp_path / "nodes").read_text() == "worker0 IDLE\nworker1 MIXED\n"


def test_only_idle_nodes_restart_idle_time(wake: Wake) -> None:
    status, _, told = wake({"worker0": "IDLE", "worker1": "IDLE+DRAIN", "worker2": "IDLE"})
    assert (status, told) == (0, ["update NodeName=worker0 State=IDLE"])


def test_node_unknown_to_slurm_is_ignored(wake: Wake) -> None:
    assert wake({"worker0": "IDLE+POWERED_DOWN"}, nodes="worker0,worker9")[0] == 0


def test_timeout_reports_suspended_nodes(wake: Wake) -> None:
    assert wake({"worker0": "IDLE+POWERING_DOWN", "worker1": "IDLE+POWERED_DOWN"}, patience=0) == (
        1,
        ["resumed worker1", "still suspended: worker0,worker1"],
        ["update NodeName=worker1 State=POWER_UP"],
    )


def test_wait_for_lock_counts_against_timeout(wake: Wake, tmp_path: Path) -> None:
    """A refresh runs two scans at once: a node that did not resume for the first will not for the second."""
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert wake({"worker0": "IDLE+POWERED_DOWN"}, patience=0) == (1, ["another process has been resuming nodes for 0 s"], [])


def test_unresponsive_slurmctld_is_reported(wake: Wake) -> None:
    status, said, _ = wake({})
    assert status == 1 and "Unable to contact slurm controller" in said[-1]


def test_idle_time_is_refreshed_during_use(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    async def refuse(stack: str, name: str, command: str, *, timeout: float) -> CompletedProcess:
        asked.append(float(command.rpartition(" ")[2]))
        return CompletedProcess((), 1, "why not\n", "")

    async def reach(*_: object, **__: object) -> dict[str, str]:
        return {}

    async def said(_: str) -> None:
        pass

    monkeypatch.setattr(driver.ssh_connections, "run_ssh", refuse)
    monkeypatch.setattr(driver.ssh_connections, "connect_all", reach)

    async def need() -> str:
        async with wake_nodes("lab", PowerSavingNodes("ctl0", ("worker0",), idle_s=0, cycle_s=90), said) as reason:
            while len(asked) < 3:
                await asyncio.sleep(0)
        looked = len(asked)
        await asyncio.sleep(0.02)
        assert len(asked) == looked
        return reason

    assert asyncio.run(need()) == "why not"
    assert asked[0] == 94 and set(asked[1:]) == {0}


def test_unreachable_controller_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reach(*_: object, **__: object) -> dict[str, str]:
        return {"ctl0": "no response over SSH"}

    async def said(_: str) -> None:
        pass

    monkeypatch.setattr(driver.ssh_connections, "connect_all", reach)

    async def need() -> str:
        async with wake_nodes("lab", PowerSavingNodes.of(SCHEDULER), said) as reason:
            return reason

    assert asyncio.run(need()) == "no response over SSH"


@pytest.mark.parametrize(("user", "said"), [(0, "sh -c true wake\n"), (1000, "sudo -n sh -c true wake\n")], ids=["root", "user"])
def test_wake_runs_as_root(tmp_path: Path, user: int, said: str) -> None:
    """Only root may write the lock, and change nodes of Slurm."""
    for name, body in {"id": f"echo {user}", "sudo": 'echo "sudo $*"', "inner": 'echo "sh $*"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    inner = "sh" if user else str(tmp_path / "inner")
    command = f"{AS_ROOT} {inner} -c true wake"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    )
    assert done.stdout == said


@pytest.mark.parametrize(
    ("said", "status", "expected"),
    [
        ("NodeName=worker0 State=IDLE+POWERED_DOWN ThreadsPerCore=1", 0, True),
        ("NodeName=worker0 State=IDLE+POWERING_DOWN ThreadsPerCore=1", 0, True),
        ("NodeName=worker0 State=IDLE+POWERING_UP ThreadsPerCore=1", 0, True),
        ("NodeName=worker0 State=DOWN+NOT_RESPONDING ThreadsPerCore=1 Reason=was State=POWERED_DOWN", 0, False),
        ("slurm_load_nodes error: Unable to contact slurm controller (connect failure)", 1, False),
        ("", 0, False),
    ],
    ids=["off", "on-its-way-off", "on-its-way-on", "failed", "no-controller", "silent"],
)
def test_suspended_node_is_one_that_slurm_powered_down(monkeypatch: pytest.MonkeyPatch, said: str, status: int, expected: bool) -> None:
    async def answer(*_: object, **__: object) -> CompletedProcess:
        return CompletedProcess((), status, said, "")

    async def reach(*_: object, **__: object) -> dict[str, str]:
        return {}

    monkeypatch.setattr(driver.ssh_connections, "run_ssh", answer)
    monkeypatch.setattr(driver.ssh_connections, "connect_all", reach)
    saving = PowerSavingNodes.of(SCHEDULER)
    assert saving is not None and asyncio.run(driver.is_suspended("rack", saving, "worker0")) is expected
