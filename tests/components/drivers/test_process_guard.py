"""A guarded command ends with the holder of its lifeline, descendants included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS, wait_until

from rackwright.drivers import process_guard

_GUARD = [sys.executable, "-I", "-S", process_guard.__file__]
_DAEMONISE = """
import os, time
if os.fork() == 0:
    os.setsid()
    open({file!r}, "w").write(str(os.getpid()))
time.sleep({seconds})
"""


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().split()[2] != "Z"
    except OSError:
        return False


def _start(command: list[str], lifeline: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*_GUARD, str(lifeline), *command], pass_fds=(lifeline,), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_guard_returns_status_of_command() -> None:
    lifeline, held = os.pipe()
    child = _start(["sh", "-c", "exit 7"], lifeline)
    assert child.wait(HANG_SECONDS) == 7
    os.close(lifeline)
    os.close(held)


def test_missing_command_is_reported_by_name() -> None:
    lifeline, held = os.pipe()
    child = _start(["no-such-command"], lifeline)
    _, err = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, err.decode().strip()) == (127, "no-such-command: No such file or directory")
    os.close(lifeline)
    os.close(held)


@pytest.mark.parametrize("how", ["lifeline", "signal"])
def test_descendant_in_other_session_is_ended(tmp_path: Path, how: str) -> None:
    note = tmp_path / "pid"
    lifeline, held = os.pipe()
    child = _start([sys.executable, "-c", _DAEMONISE.format(file=str(note), seconds=ENDLESS_SECONDS)], lifeline)
    wait_until(lambda: note.exists() and note.read_text())
    escaped = int(note.read_text())
    assert _alive(escaped)
    if how == "lifeline":
        os.close(held)
    else:
        child.send_signal(signal.SIGTERM)
    assert child.wait(HANG_SECONDS) == 130
    wait_until(lambda: not _alive(escaped))
    os.close(lifeline)
