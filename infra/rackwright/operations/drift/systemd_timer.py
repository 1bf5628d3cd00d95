"""Install and remove the systemd timer of a nightly drift scan: a unit of the system for root, otherwise of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import time
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.drift import schedule
from rackwright.drift.schedule import ScheduledScan
from rackwright.errors import InputError, RackwrightError
from rackwright.inventory import paths

_BOOTED: Final = Path("/run/systemd/system")
"""Exists if and only if systemd is running: sd_booted(3)."""
_SYSTEM: Final = Path("/etc/systemd/system")
_MIDNIGHT: Final = time()


def nightly_scan(stack: str, at: time = _MIDNIGHT, jitter_s: int = 0) -> ScheduledScan:
    """Return the nightly scan of a stack by this environment's `rackwright`, with a random delay of up to `jitter_s` seconds."""
    program = Path(sys.executable).with_name("rackwright")
    return ScheduledScan(stack, str(program), str(paths.drift_page(stack)), at, jitter_s, _environment())


def unit_folder() -> Path:
    """Return the folder for units: the system's for root, otherwise the user's (systemd.unit(5))."""
    return _SYSTEM if os.geteuid() == 0 else Path.home() / ".config" / "systemd" / "user"


def installed_units(scan: ScheduledScan) -> list[Path]:
    """Return the installed units of the current user that scan the stack."""
    return [file for name in schedule.systemd(scan) if (file := unit_folder() / name).exists()]


def install_timer(scan: ScheduledScan) -> Path:
    """Write the units, start the timer and return its file.

    Raises InputError if systemd is not running, RackwrightError if systemctl fails.
    """
    _require_systemd()
    folder = unit_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schedule.systemd(scan).items():
        (folder / name).write_text(text, encoding="utf-8")
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", *_timers(scan))
    return folder / f"{scan.unit}.timer"


def remove_timer(scan: ScheduledScan) -> list[Path]:
    """Stop the timer, delete its units and return their files; do nothing if none is installed.

    Raises InputError if systemd is not running, RackwrightError if systemctl fails.
    """
    _require_systemd()
    files = installed_units(scan)
    if files:
        _systemctl("disable", "--now", *_timers(scan))
        for file in files:
            file.unlink()
        _systemctl("daemon-reload")
    return files


def _environment() -> dict[str, str]:
    """Return the environment variables that the scan needs. A timer starts in another folder; a checkout is found without a variable."""
    home = {"RACKWRIGHT_HOME": str(paths.home())} if os.environ.get("RACKWRIGHT_HOME") else {}
    project = paths.project_root()
    return home | ({layout.PROJECT_ENV: str(project)} if project != layout.product_root() else {})


def _timers(scan: ScheduledScan) -> list[str]:
    return [name for name in schedule.systemd(scan) if name.endswith(".timer")]


def _require_systemd() -> None:
    if not _BOOTED.is_dir() or shutil.which("systemctl") is None:
        raise InputError(
            "systemd is not running on this machine",
            path="--using systemd",
            hint="pass `--using cron` to print lines for cron, or `--using github` to print a workflow",
        )


def _systemctl(*words: str) -> None:
    own = [] if os.geteuid() == 0 else ["--user"]
    done = subprocess.run(["systemctl", *own, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RackwrightError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
