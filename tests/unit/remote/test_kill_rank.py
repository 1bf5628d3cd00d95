"""A rank among the processes of a worker: a real one is killed, and neither its launcher nor a rank of another run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackwright.remote.programs import kill_rank

RANK = ("-m", kill_rank.TRAIN, "--run")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield a list of processes that are ended after the test."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for one in found:
        one.kill()
        one.wait()


def start(found: list[subprocess.Popen[bytes]], *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process with these arguments, which sleeps."""
    found.append(
        subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", *arguments], stdout=subprocess.PIPE)
    )
    assert found[-1].stdout is not None
    found[-1].stdout.readline()
    return found[-1]


def test_last_rank_of_run_is_killed(processes: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    launcher = start(processes, "-m", kill_rank.LAUNCH, "--nnodes=1", *RANK, str(tmp_path))
    first, last = start(processes, *RANK, str(tmp_path)), start(processes, *RANK, str(tmp_path))
    other = start(processes, *RANK, str(tmp_path / "other"))
    victim = max(first, last, key=lambda one: one.pid)
    assert kill_rank.main({"folder": str(tmp_path)}) == {"pid": victim.pid}
    assert victim.wait(timeout=60) == -9
    assert all(one.poll() is None for one in (launcher, other, first, last) if one is not victim)


def test_node_without_rank_kills_nothing(processes: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    launcher = start(processes, "-m", kill_rank.LAUNCH, *RANK, str(tmp_path))
    assert kill_rank.main({"folder": str(tmp_path)}) == {"pid": None} and launcher.poll() is None
