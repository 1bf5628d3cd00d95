"""Locks of the system's package manager: another process, such as unattended-upgrades after a boot, can hold them for minutes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable

from bootstrap.failure import Failure
from bootstrap.machine import Machine

FILES = ("var/lib/dpkg/lock-frontend", "var/lib/dpkg/lock", "var/lib/apt/lists/lock", "var/cache/apt/archives/lock")
"""Lock files of apt and dpkg (apt-get(8), FILES; dpkg(1))."""
LONGEST = 600
"""Seconds to wait. Chosen: unattended-upgrades of a new machine takes minutes."""
_PAUSE = 2.0


def wait_until_free(
    machine: Machine,
    note: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until no process holds a lock of apt or dpkg; raise Failure with the process if one holds it for `LONGEST` seconds."""
    end = clock() + LONGEST
    while found := find_holder(machine):
        if clock() > end:
            raise Failure(f"{found}, for {LONGEST // 60} min. Wait until it has ended, then run make again.")
        note(f"waits: {found}")
        sleep(_PAUSE)


def find_holder(machine: Machine) -> str | None:
    """Return the process that holds a lock, with the lock's file; None if there is none, or if the kernel does not show it."""
    try:
        rows = [line.split() for line in (machine.root / "proc/locks").read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:
        return None
    held = {row[5]: row[4] for row in rows if len(row) == 8}  # A process that waits for a lock has a row with `->`, of nine words.
    for name in FILES:
        try:
            found = os.stat(machine.root / name)
        except OSError:
            continue
        process = held.get(f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}")
        if process is not None:
            return f"process {process}{_command(machine.root / 'proc' / process)} holds /{name}"
    return None


def _command(process: Path) -> str:
    try:
        return f" ({(process / 'comm').read_text(encoding='utf-8', errors='replace').strip()})"
    except OSError:
        return ""
