"""Ansible's own files lie with the stack, and those of a run that was killed do not stay."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rackwright.drivers import ansible
from rackwright.drivers.ansible_child import Reporter, private_tempdir
from rackwright.drivers.process import CompletedProcess
from rackwright.drivers.supervision import INTERRUPTED
from rackwright.inventory import paths

_NOBODY = 2**22 + 1
"""Above the highest process id of Linux (man 5 proc_sys_kernel, pid_max)."""


def test_a_run_s_files_lie_beside_the_inventory_and_go_with_it(tmp_path: Path) -> None:
    with private_tempdir(tmp_path) as folder:
        assert Path(folder).parent == tmp_path and Path(folder).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    dead, living = tmp_path / f".ansible-{_NOBODY}-x", tmp_path / f".ansible-{os.getppid()}-x"
    for folder in (dead, living):
        folder.mkdir()
        (folder / "stdout").touch()
    with private_tempdir(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == [living]


def test_what_changed_where_nothing_is_shown_is_told_without_what_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    note = {"host": "worker1", "play": "Configure MUNGE", "role": "munge", "task": "Write the cluster's MUNGE key"}
    Reporter({"Configure MUNGE": "scheduler"}).hidden([json.dumps(note)])
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "event": "changed",
        "host": "worker1",
        "phase": "scheduler",
        "role": "munge",
        "task": "Write the cluster's MUNGE key",
        "detail": "content not shown",
    }


def test_who_would_change_is_told_and_not_who_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """A task that one host runs at a controller for all of them."""
    reporter = Reporter({"Slurm": "scheduler"})
    reporter.handle({"event": "playbook_on_play_start", "event_data": {"name": "Slurm"}})
    result = {"changed": True, "changed_hosts": {"worker1": "worker1 is DOWN", "worker2": "worker2 is IDLE+DRAIN"}}
    reporter.handle({"event": "runner_on_ok", "event_data": {"host": "worker0", "task": "Bring them back", "res": result}})
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["host"], one["live"], one["detail"]) for one in told] == [
        ("worker1", "worker1 is DOWN", "worker1, worker2"),
        ("worker2", "worker2 is IDLE+DRAIN", "worker1, worker2"),
    ]


def test_interrupted_playbook_gives_one_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that ended with their connection are no failures."""

    async def stream(argv: object, on_line: Callable[[str], Awaitable[None]], **_: object) -> CompletedProcess:
        await on_line(json.dumps({"event": "failed", "host": "worker0", "phase": "gpu", "task": "Run it", "detail": "Terminated"}))
        await on_line(json.dumps({"event": "end", "status": 254, "message": ""}))
        return CompletedProcess((), 254, "", "")

    monkeypatch.setattr(ansible, "stream", stream)
    assert asyncio.run(play_it(tmp_path)).reasons == ["worker0: gpu: Run it: Terminated"]
    monkeypatch.setattr(ansible.current, "cancelled", True)
    assert asyncio.run(play_it(tmp_path)).reasons == [INTERRUPTED]


async def play_it(folder: Path, *, check: bool = False) -> ansible.PlaybookResult:
    async def quiet(_: str) -> None:
        pass

    root = paths.project_root()
    return await ansible.play(root, str(folder / "play.yml"), inventory=folder / "inventory.yml", check=check, on_progress=quiet)
