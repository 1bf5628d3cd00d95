"""`rackwright drift-schedule`: schedule a nightly drift scan with systemd, cron or GitHub Actions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from rackwright import layout
from rackwright.drift import schedule as drift_schedule
from rackwright.errors import InputError, RackwrightError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up
from rackwright.model.units import parse_seconds

_BOOTED: Final = Path("/run/systemd/system")
"""Exists if and only if systemd is running: sd_booted(3)."""
_SYSTEM: Final = Path("/etc/systemd/system")


class Way(StrEnum):
    """Scheduler that starts the scan."""

    SYSTEMD = "systemd"
    CRON = "cron"
    GITHUB = "github"


def schedule(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    at: Annotated[
        str, typer.Option(help="Start time in this machine's time zone (for example 03:00); UTC with `--using github`.")
    ] = "03:00",
    jitter: Annotated[str, typer.Option(help="Maximum random delay, so that the scans of many stacks do not start together.")] = "15m",
    using: Annotated[Way, typer.Option(help="`systemd` installs a timer; `cron` and `github` print the lines to install.")] = Way.SYSTEMD,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the units instead of installing them.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the timer.")] = False,
) -> None:
    """Schedule a nightly drift scan. With systemd, a machine that was off at that time scans when it starts again."""
    if not remove:
        require_up(stack)
    nightly = _nightly(stack, _time(at), _seconds(jitter))
    if using is Way.CRON:
        typer.echo(drift_schedule.crontab(nightly), nl=False)
    elif using is Way.GITHUB:
        typer.echo(drift_schedule.github(nightly), nl=False)
    elif dry_run:
        typer.echo("\n".join(f"# {_folder() / name}\n{text}" for name, text in drift_schedule.systemd(nightly).items()), nl=False)
    elif remove:
        _removed(nightly)
    else:
        _installed(nightly)


def still_there(stack: str) -> list[Path]:
    """Return the installed units of the current user that scan the stack."""
    return [file for name in drift_schedule.systemd(_nightly(stack, time(), 0)) if (file := _folder() / name).exists()]


def _nightly(stack: str, at: time, jitter_s: int) -> drift_schedule.ScheduledScan:
    return drift_schedule.ScheduledScan(stack, _program(), str(paths.drift_page(stack)), at, jitter_s, _environment())


def _program() -> str:
    """Return the path of `rackwright` in the current environment."""
    return str(Path(sys.executable).with_name("rackwright"))


def _environment() -> dict[str, str]:
    """Return what the scan needs of this process's environment. A timer starts in no project folder; a checkout is found without one."""
    home = {"RACKWRIGHT_HOME": str(paths.home())} if os.environ.get("RACKWRIGHT_HOME") else {}
    project = paths.project_root()
    return home | ({layout.PROJECT_ENV: str(project)} if project != layout.product_root() else {})


def _time(asked: str) -> time:
    if not re.fullmatch(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", asked):
        raise InputError(f"`{asked}` is not a time of day", path="--at", hint="pass hours and minutes, like 03:00")
    hour, minute = asked.split(":")
    return time(int(hour), int(minute))


def _seconds(asked: str) -> int:
    from pydantic_core import PydanticCustomError

    try:
        return 0 if asked == "0" else parse_seconds(asked)
    except PydanticCustomError as error:
        raise InputError(f"`{asked}` is not a duration", path="--jitter", hint="pass a number and s, m or h, like 15m") from error


def _folder() -> Path:
    """Return the folder for units: the system's for root, otherwise the user's."""
    return _SYSTEM if os.geteuid() == 0 else Path.home() / ".config" / "systemd" / "user"


def _systemctl(*words: str) -> None:
    own = [] if os.geteuid() == 0 else ["--user"]
    done = subprocess.run(["systemctl", *own, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RackwrightError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def _must_run_systemd() -> None:
    if not _BOOTED.is_dir() or shutil.which("systemctl") is None:
        raise InputError(
            "systemd is not running on this machine",
            path="--using systemd",
            hint="pass `--using cron` to print lines for cron, or `--using github` to print a workflow",
        )


def _installed(nightly: drift_schedule.ScheduledScan) -> None:
    _must_run_systemd()
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in drift_schedule.systemd(nightly).items():
        (folder / name).write_text(text, encoding="utf-8")
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", *_timers(nightly))
    typer.echo(f"nightly scan of {nightly.stack} scheduled at {nightly.at:%H:%M}: {folder / nightly.unit}.timer")
    if os.geteuid() != 0:
        typer.echo("  it runs only while you are logged in; run `loginctl enable-linger` to change that")


def _timers(nightly: drift_schedule.ScheduledScan) -> list[str]:
    return [name for name in drift_schedule.systemd(nightly) if name.endswith(".timer")]


def _removed(nightly: drift_schedule.ScheduledScan) -> None:
    _must_run_systemd()
    files = still_there(nightly.stack)
    if not files:
        typer.echo(f"no timer of {nightly.stack} is installed")
        return
    _systemctl("disable", "--now", *_timers(nightly))
    for file in files:
        file.unlink()
    _systemctl("daemon-reload")
    typer.echo(f"removed {', '.join(str(file) for file in files)}")
