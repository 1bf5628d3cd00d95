"""End of a process that outlives its parent: it is over when its files are closed, not when its arguments can no longer be read."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.killing import kill

from rackwright.drivers import daemon
from rackwright.drivers.vm import machine
from rackwright.processes import start_time

MEMORY = 512 << 20
"""Bytes whose release takes the kernel tens of milliseconds; the process exits no sooner."""
OWNER = f"""
import fcntl, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
memory = bytearray(b"x") * {MEMORY}
print("ready", flush=True)
time.sleep(600)
"""
LAST_THREAD = """
import ctypes, fcntl, platform, threading, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60}.get(platform.machine(), 93), 0)
"""
"""Program whose first thread exits: exit(2) is system call 60 of x86_64 and 93 of the generic table (asm-generic/unistd.h)."""


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that uses much memory and holds a lock in its working directory."""
    monkeypatch.setattr(daemon, "_PAUSE", 0.001)
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until_exiting(pid: int) -> None:
    """Return when the kernel has taken the memory of a killed process, and with it its arguments."""
    while Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.001)


def test_terminated_process_holds_no_lock(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert is_locked(tmp_path)
    since = start_time(owner.pid)
    assert since and daemon.terminate(owner.pid, since, (sys.executable,), patience=60)
    assert start_time(owner.pid) is None and not is_locked(tmp_path)


def test_process_that_another_killed_is_awaited(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    since = start_time(owner.pid)
    owner.kill()
    wait_until_exiting(owner.pid)
    assert since and daemon.terminate(owner.pid, since, (sys.executable,), patience=60)
    assert not is_locked(tmp_path)


def test_machine_whose_process_is_exiting_is_awaited(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    owner.kill()
    wait_until_exiting(owner.pid)
    machine.stop(tmp_path)
    assert not is_locked(tmp_path)


def test_process_with_other_arguments_is_left_alone(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    since = start_time(owner.pid)
    assert since and daemon.terminate(owner.pid, since, ("qemu-system-x86_64",), patience=60)
    assert is_locked(tmp_path)


def test_process_without_its_first_thread_has_not_exited(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", LAST_THREAD], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            wait_until_exiting(process.pid)
            assert start_time(process.pid) is not None and is_locked(tmp_path)
            kill(process.pid)
            assert not is_locked(tmp_path)
        finally:
            process.kill()
