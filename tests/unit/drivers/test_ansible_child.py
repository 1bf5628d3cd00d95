"""Ansible's own files lie with the stack, and those of a run that was killed do not stay."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from rackwright.drivers import ansible
from rackwright.drivers.ansible_child import Reporter, private_tempdir
from rackwright.drivers.process import CompletedProcess
from rackwright.drivers.supervision import INTERRUPTED
from rackwright.inventory import paths
from rackwright.report.redact import Redactor

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


def test_secret_is_masked_before_its_message_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    """Part of a secret is not recognised afterwards: a MUNGE key has 1,368 characters, and a displayed line 600."""
    key = base64.b64encode(bytes(range(256)) * 4).decode()
    reporter = Reporter({"Slurm": "scheduler"}, mask=Redactor([key]))
    failures = [
        {"msg": f"the key is {key}"},
        {"results": [{"failed": True, "item": key, "msg": f"no {key}"}]},
        {"msg": "non-zero return code", "rc": 1, "cmd": ["munge", key], "stdout": f"error: {key}"},
        {"msg": "a\n" * 20 + f"error: {key}"},
    ]
    for result in failures:
        reporter.handle({"event": "runner_on_failed", "event_data": {"host": "worker0", "task": "Quote the key", "res": result}})
    told = [json.loads(line)["detail"] for line in capsys.readouterr().out.splitlines()]
    assert len(told) == len(failures)
    for detail in told:
        assert "[secret]" in detail
        assert not [start for start in range(len(key) - 16) if key[start : start + 16] in detail]


def test_secret_in_the_last_words_of_ansible_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "k" * 1368
    (tmp_path / "secrets.yml").write_text(json.dumps({"secrets": {"munge_key": key}}))

    async def stream(*_: object, **__: object) -> CompletedProcess:
        return CompletedProcess((), 1, "", f"ValueError: {key}")

    monkeypatch.setattr(ansible, "stream", stream)
    assert asyncio.run(play_it(tmp_path, extra_vars=[tmp_path / "secrets.yml"])).reasons == ["ValueError: [secret]"]


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


async def play_it(folder: Path, *, check: bool = False, extra_vars: Sequence[Path] = ()) -> ansible.PlaybookResult:
    async def quiet(_: str) -> None:
        pass

    root = paths.project_root()
    play, inventory = str(folder / "play.yml"), folder / "inventory.yml"
    return await ansible.play(root, play, inventory=inventory, extra_vars=extra_vars, check=check, on_progress=quiet)
