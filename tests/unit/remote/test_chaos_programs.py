"""The programs that inject failures on a node and read their effect, with stand-ins for the node's commands."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rackwright.remote.programs import chaos_node, chaos_watch

USER = pwd.getpwuid(os.getuid()).pw_name
EVENT = {"action": "inject", "id": "e-1", "seconds": 20, "address": "10.87.0.11", "bandwidth": "10mbit", "slot": 1, "user": USER, "pick": 3}
ADDRESS = "1: lo    inet 127.0.0.1/8 scope host lo\\n2: eth0@if7    inet 10.87.0.11/24 brd 10.87.0.255 scope global eth0"
UNITS = "rw-chaos-e-1.service loaded active running /bin/sh -c"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with commands that record their arguments, one a line."""
    for name, text in {
        "logger": "",
        "systemd-run": "",
        "runuser": "",
        "nft": "",
        "ip": f"printf '{ADDRESS}'",
        "systemctl": f"echo '{UNITS}'",
    }.items():
        command(tmp_path, name, text)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(chaos_node, "SETTLES", 0)
    return tmp_path


def command(folder: Path, name: str, text: str) -> None:
    """Write a stand-in for a command."""
    (folder / "bin").mkdir(exist_ok=True)
    file = folder / "bin" / name
    file.write_text(f'#!/bin/sh\nfor word; do echo "$word"; done >> {folder}/{name}\n{text}\n')
    file.chmod(0o755)


def ask(**request: Any) -> dict[str, Any]:
    """Return the answer of a node."""
    found: dict[str, Any] = json.loads(json.dumps(chaos_node.main({**EVENT, **request})))
    return found


def words(folder: Path, name: str) -> list[str]:
    """Return the arguments that a command got."""
    file = folder / name
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize(
    ("mode", "begins", "ends"),
    [
        ("network_slow", "tc qdisc replace dev eth0 root tbf rate 10mbit", "tc qdisc del dev eth0 root; "),
        ("network_cut", "sleep 1; nft 'add table inet rw_chaos;", "nft delete table inet rw_chaos; "),
        ("storage_stall", "systemctl kill -s STOP moosefs-chunkserver", "systemctl kill -s CONT moosefs-chunkserver; "),
        ("gpu_lost", "rackwright-gpu-fault missing 1", "rackwright-gpu-fault clear; "),
        ("xid", "rackwright-gpu-fault xid 1", "rackwright-gpu-fault clear; "),
    ],
)
def test_lasting_failure_is_held_by_unit_that_undoes_it(node: Path, mode: str, begins: str, ends: str) -> None:
    assert ask(mode=mode)["error"] == ""
    given = words(node, "systemd-run")
    assert given[: given.index("/bin/sh")] == [
        *("--collect", "--quiet", "--unit", "rw-chaos-e-1", "-p", "RuntimeMaxSec=20", "-p"),
        f"ExecStopPost=/bin/sh -c '{ends}logger -t CHAOS e-1 {mode}: undone by its unit'",
    ]
    assert given[-1].startswith(begins) and given[-1].endswith(" && exec sleep infinity")
    assert words(node, "logger")[:3] == ["-t", "CHAOS", "--"]


def test_unit_that_ended_at_once_is_an_error(node: Path) -> None:
    command(node, "systemctl", "true")
    assert ask(mode="network_slow")["error"] == "unit rw-chaos-e-1 has ended: `journalctl -u rw-chaos-e-1` says why"


def test_failure_without_its_tool_is_refused(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (node / "bin/nft").unlink()
    monkeypatch.setenv("PATH", f"{node}/bin")
    assert ask(mode="network_cut")["error"] == "nft is not installed" and words(node, "systemd-run") == []


def test_unknown_address_is_refused(node: Path) -> None:
    assert "no interface has the address 10.9.9.9" in ask(mode="network_slow", address="10.9.9.9")["error"]


@contextmanager
def rank(number: int, job: str) -> Iterator[int]:
    """Yield the id of a process of this user like a rank of a job, with a child."""
    known = {"PATH": os.environ["PATH"], "RANK": str(number), "SLURM_JOB_ID": job}
    child = subprocess.Popen(["sh", "-c", "sleep 60 & echo ready; wait"], env=known, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    try:
        yield child.pid
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


JOB = f"test-{os.getpid()}"
"""Job of this test's processes; other processes of this machine may be ranks, too."""


def test_rank_is_a_process_of_job_and_not_its_child(node: Path) -> None:
    with rank(1, JOB) as second, rank(0, JOB) as first, rank(0, "") as without_job:
        found = [one for one in ask(action="ranks")["ranks"] if one["job"] == JOB or one["pid"] == without_job]
    assert found == [{"pid": first, "rank": 0, "job": JOB}, {"pid": second, "rank": 1, "job": JOB}]


def test_picked_rank_is_killed_or_limited(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rank(0, JOB) as first, rank(1, JOB) as second:
        own = [{"pid": first, "rank": 0, "job": JOB}, {"pid": second, "rank": 1, "job": JOB}]
        monkeypatch.setattr(chaos_node, "ranks", lambda _user: own)
        assert ask(mode="gpu_oom", pick=2)["target"] == own[0] and words(node, "runuser")[3:] == [
            "prlimit",
            "--pid",
            str(first),
            "--as=1048576",
        ]
        assert ask(mode="rank_kill")["target"] == own[1]
        assert os.waitid(os.P_PID, second, os.WEXITED | os.WNOWAIT).si_status == signal.SIGKILL
        assert Path(f"/proc/{first}/environ").read_bytes()


def test_node_without_rank_refuses(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_node, "ranks", lambda _user: [])
    assert ask(mode="rank_kill")["error"] == f"no rank of a training job of {USER} runs on this node"


def test_restart_of_scheduler_waits_for_its_end(node: Path) -> None:
    assert ask(mode="scheduler_restart")["error"] == "" and words(node, "systemctl") == ["restart", "slurmctld"]


def test_undo_stops_each_unit(node: Path) -> None:
    assert ask(action="undo")["units"] == ["e-1"]
    assert words(node, "systemctl")[-2:] == ["stop", "rw-chaos-e-1"]


SCONTROL = (
    "NodeName=worker0 Arch=x86_64 State=MIXED ThreadsPerCore=1 SlurmdStartTime=2026-11-28T16:56:03\\n"
    "NodeName=worker1 State=DOWN*+DRAIN Slots=1 Reason=rackwright: gpu.count: lost [root@2026-11-28T10:00:00]\\n"
)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with stand-ins for Slurm, and the events of a training run."""
    command(tmp_path, "scontrol", f"printf '{SCONTROL}'")
    command(tmp_path, "squeue", "printf '41|alice|RUNNING|worker[0-1]|rackwright-train-2\\n7|bob|PENDING||a|b\\n'")
    (tmp_path / "train-2").mkdir()
    (tmp_path / "train-2/events-0.jsonl").write_text('{"event": "start"}\n')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def test_watch_reads_nodes_jobs_and_newest_run(slurm: Path) -> None:
    answer = chaos_watch.main({"results": str(slurm), "run": "", "offsets": {}})
    assert answer["nodes"]["worker1"] == {
        "states": ["DOWN", "DRAIN", "NOT_RESPONDING"],
        "reason": "rackwright: gpu.count: lost",
        "registered": None,
    }
    worker0 = answer["nodes"]["worker0"]
    assert (worker0["states"], worker0["reason"]) == (["MIXED"], "")
    assert time.strftime("%FT%T", time.localtime(worker0["registered"])) == "2026-11-28T16:56:03"
    assert answer["jobs"][1] == {"id": "7", "user": "bob", "state": "PENDING", "nodes": "", "name": "a|b"}
    assert (answer["run"], answer["lines"], answer["error"]) == ("rackwright-train-2", [{"event": "start"}], "")


def test_watch_reads_run_while_slurm_does_not_answer(slurm: Path) -> None:
    command(slurm, "scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")
    answer = chaos_watch.main({"results": str(slurm), "run": "rackwright-train-2", "offsets": {}})
    assert answer["error"] == "Unable to contact slurm controller" and answer["lines"] == [{"event": "start"}]


def test_cut_network_spares_loopback_only() -> None:
    assert chaos_node.CUT.count(" drop") == chaos_node.CUT.count('name != "lo" drop') == 2
