"""The watchdog of a lease as a real process: it outlives a SIGKILL of the command and of its process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rackwright.inventory import paths
from rackwright.operations.chaos import lease

STACK = "lab-train"


def test_watchdog_ends_lease_of_killed_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process grants a lease, starts the real watchdog and is killed with its group; a stand-in for podman records the start."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    (tmp_path / "bin").mkdir()
    podman = tmp_path / "bin/podman"
    podman.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/podman.log\n')
    podman.chmod(0o755)
    program = (
        "import json\n"
        "import time\n"
        "from rackwright.inventory import paths\n"
        "from rackwright.operations.chaos import lease, watchdog\n"
        f"paths.prepare({STACK!r})\n"
        f"paths.chaos({STACK!r}).mkdir()\n"
        f"granted = lease.grant({STACK!r}, 'lab', 'worker1', lease.Undo.START, 'e-1', time.time() + 600)\n"
        f"file = paths.chaos_leases({STACK!r}) / 'e-1.lease.json'\n"
        "file.write_text(json.dumps({**json.loads(file.read_text()), 'granted': 0.0}))\n"
        "watchdog.start(granted)\n"
        "print('granted', flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    command = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, start_new_session=True)
    assert command.stdout is not None and command.stdout.readline() == b"granted\n"
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()
    command.stdout.close()
    until = time.monotonic() + 60
    while lease.open_leases(STACK):
        assert time.monotonic() < until, (paths.chaos(STACK) / "watchdog.log").read_text()
        time.sleep(0.1)
    assert f"start {STACK}-worker1" in (tmp_path / "podman.log").read_text()
    assert (lease.ended(STACK, "e-1") or {})["by"] == "watchdog"
