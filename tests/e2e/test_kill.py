"""Runs that are killed leave nothing that the next plain `pulumi up` does not heal, and no process behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from project import Project, clone

pytestmark = [pytest.mark.timely, pytest.mark.usefixtures("in_time")]

_STAYS = frozenset({"conmon", "aardvark-dns", "ssh", "ssh:"})
"""What belongs to containers that live on, and kept ssh connections with the hop they go through (they end by themselves)."""


def _of_this_stack(project: Project) -> list[str]:
    """Processes whose environment names this copy's home: the engine, the provider and all that they started."""
    marker = f"RACKWRIGHT_HOME={project.home}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if marker in environment and Path(command.split(b"\0")[0].split(b" ")[0].decode()).name not in _STAYS:
            found.append(command.replace(b"\0", b" ").decode()[:120])
    return found


def _wait_for(project: Project, child: subprocess.Popen[str], text: str, seconds: float = 60) -> None:
    """Read the run's output until a text appears in it."""
    assert child.stdout is not None
    deadline = time.monotonic() + seconds
    seen = []
    for line in child.stdout:
        seen.append(line)
        if text in line:
            return
        assert time.monotonic() < deadline, "".join(seen)
    raise AssertionError(f"`{text}` never came:\n" + "".join(seen))


def _third_worker(present: bool) -> Any:
    def change(cluster: dict[str, Any]) -> None:
        cluster["groups"]["worker"]["count"] = 3 if present else 2

    return change


@pytest.mark.parametrize(
    ("moment", "blow", "whole_group"),
    [
        ("worker2 creating", signal.SIGKILL, False),
        ("bootstrap:", signal.SIGKILL, True),
        ("scheduler:", signal.SIGKILL, False),
        ("bootstrap:", signal.SIGINT, True),
    ],
)
def test_a_killed_up_is_healed_by_a_plain_up(healthy: Project, moment: str, blow: signal.Signals, whole_group: bool) -> None:
    healthy.edit(_third_worker(True))
    child = healthy.start(healthy.pulumi_command("up"))
    _wait_for(healthy, child, moment)
    (os.killpg if whole_group else os.kill)(child.pid, blow)
    child.communicate(timeout=120)
    deadline = time.monotonic() + 30
    while (left := _of_this_stack(healthy)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    said = healthy.must("up")
    assert healthy.report()["verdict"] == "passed"
    assert "worker2" in healthy.incarnations()
    assert "pending" not in said.output.lower(), said.output
    healthy.edit(_third_worker(False))
    after = healthy.must("up")
    assert "warning" not in after.output.lower(), after.output


def test_a_second_up_at_the_same_time_gets_one_clear_error(healthy: Project) -> None:
    healthy.edit(_third_worker(True))
    first = healthy.start(healthy.pulumi_command("up"))
    _wait_for(healthy, first, "creating")
    second = healthy.pulumi("up")
    assert not second.ok and "lock" in second.output and "Traceback" not in second.output, second.output
    output, _ = first.communicate(timeout=900)
    assert first.returncode == 0, output
    healthy.edit(_third_worker(False))
    healthy.must("up")


@pytest.fixture
def unrecorded(tmp_path: Path) -> Iterator[Project]:
    """A copy whose podman is slow to tell that it has made something: a kill finds it made and not on record."""
    project = clone(tmp_path / "checkout")
    real, slow = shutil.which("podman"), tmp_path / "bin" / "podman"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\n{real} "$@"\nstatus=$?\ncase " $* " in *" create "*) sleep 3 ;; esac\nexit $status\n')
    slow.chmod(0o755)
    project.environment["PATH"] = f"{slow.parent}:{project.environment['PATH']}"
    yield project
    project.remove()
    assert project.leftovers() == []


def test_what_was_made_and_never_recorded_is_removed_by_destroy(unrecorded: Project) -> None:
    child = unrecorded.start(unrecorded.pulumi_command("up"))
    deadline = time.monotonic() + 60
    while len(unrecorded.leftovers()) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    output, _ = child.communicate(timeout=120)
    assert len(unrecorded.leftovers()) == 5, output
    unrecorded.must("destroy")
    assert unrecorded.leftovers() == []
