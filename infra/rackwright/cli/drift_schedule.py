"""`rackwright drift-schedule`: schedule a nightly drift scan with systemd, cron or GitHub Actions."""

from __future__ import annotations

import os
import re
from datetime import time
from enum import StrEnum
from typing import Annotated

import typer

from rackwright.cli.duration_option import parse_duration
from rackwright.drift import schedule as drift_schedule
from rackwright.drift.schedule import ScheduledScan
from rackwright.errors import InputError
from rackwright.inventory.running_stack import require_up
from rackwright.operations.drift import systemd_timer


class Backend(StrEnum):
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
    using: Annotated[Backend, typer.Option(help="`systemd` installs a timer; `cron`, `github` print lines.")] = Backend.SYSTEMD,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the units instead of installing them.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the timer.")] = False,
) -> None:
    """Schedule a nightly drift scan. With systemd, a machine that was off at that time scans when it starts again."""
    if not remove:
        require_up(stack)
    nightly = systemd_timer.nightly_scan(stack, _time(at), 0 if jitter in ("0", "0s") else parse_duration("--jitter", jitter))
    if using is Backend.CRON:
        typer.echo(drift_schedule.crontab(nightly), nl=False)
    elif using is Backend.GITHUB:
        typer.echo(drift_schedule.github(nightly), nl=False)
    elif dry_run:
        units = drift_schedule.systemd(nightly).items()
        typer.echo("\n".join(f"# {systemd_timer.unit_folder() / name}\n{text}" for name, text in units), nl=False)
    elif remove:
        _remove(nightly)
    else:
        _install(nightly)


def _time(asked: str) -> time:
    if not re.fullmatch(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", asked):
        raise InputError(f"`{asked}` is not a time of day", path="--at", hint="pass hours and minutes, like 03:00")
    hour, minute = asked.split(":")
    return time(int(hour), int(minute))


def _install(nightly: ScheduledScan) -> None:
    timer = systemd_timer.install_timer(nightly)
    typer.echo(f"nightly scan of {nightly.stack} scheduled at {nightly.at:%H:%M}: {timer}")
    if os.geteuid() != 0:
        typer.echo("  it runs only while you are logged in; run `loginctl enable-linger` to change that")


def _remove(nightly: ScheduledScan) -> None:
    files = systemd_timer.remove_timer(nightly)
    typer.echo(f"removed {', '.join(map(str, files))}" if files else f"no timer of {nightly.stack} is installed")
