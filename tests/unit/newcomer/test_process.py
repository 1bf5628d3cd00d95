"""A process is ended only if its start time is the one on record."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from newcomer.process import Process, parse_stat
from newcomer.runs import Run, list_runs, remove_orphans

STAT = "812 (qemu) system) S 1 812 812 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 4 0 {started} 1000 50 1"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this test."""
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def test_start_time_is_field_22() -> None:
    assert parse_stat(812, STAT.format(started=4711)) == Process(812, 4711)


@pytest.mark.parametrize("text", ["", "812 (x) S 1", STAT.replace(" S ", " Z ").format(started=4711)])
def test_zombie_or_cut_line_is_no_process(text: str) -> None:
    assert parse_stat(812, text) is None


def test_number_with_other_start_is_not_alive(tmp_path: Path) -> None:
    (tmp_path / "812").mkdir()
    (tmp_path / "812" / "stat").write_text(STAT.format(started=4711))
    assert Process(812, 4711).is_alive(tmp_path)
    assert not Process(812, 4712).is_alive(tmp_path)
    assert not Process(813, 4711).is_alive(tmp_path)


def test_successor_of_number_is_not_ended(sleeper: subprocess.Popen[bytes]) -> None:
    found = Process.observe(sleeper.pid)
    assert found is not None
    Process(found.pid, found.started - 1).end(0.1)
    assert sleeper.poll() is None


def test_recorded_process_is_ended(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    found = Process.observe(sleeper.pid)
    assert found is not None
    found.record(tmp_path / "process")
    assert Process.read(tmp_path / "process") == found
    found.end()
    assert sleeper.wait(5) == -15


def test_unreadable_record_names_no_process(tmp_path: Path) -> None:
    (tmp_path / "process").write_text("none\n")
    assert Process.read(tmp_path / "process") is None and Process.read(tmp_path / "missing") is None


def test_run_outlives_others_until_owner_ends(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = Run.begin()
    (run.folder / "plain").mkdir()
    machine = Process.observe(sleeper.pid)
    assert machine is not None
    machine.record(run.folder / "plain" / "process")
    assert remove_orphans() == [] and list_runs() == [run]
    Process(os.getpid(), 1).record(run.folder / "owner")
    assert remove_orphans() == [run.run_id]
    assert sleeper.wait(5) == -15 and list_runs() == []
