"""`rackwright schedule`: a look for drift every night, by what this machine has for that."""

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

from rackwright.cli.live import must_be_up
from rackwright.drift import timer
from rackwright.errors import BadInput, RackwrightError
from rackwright.handover import paths
from rackwright.model.units import parse_seconds

_BOOTED: Final = Path("/run/systemd/system")
"""There exactly where systemd runs: sd_booted(3)."""
_SYSTEM: Final = Path("/etc/systemd/system")


class Way(StrEnum):
    """Who starts the look."""

    SYSTEMD = "systemd"
    CRONTAB = "crontab"
    GITHUB = "github"


def schedule(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    at: Annotated[str, typer.Option(help="When, by this machine's clock, like 03:00; `github` counts in UTC.")] = "03:00",
    jitter: Annotated[str, typer.Option(help="It starts up to so much later, so that many stacks do not begin at once.")] = "15m",
    by: Annotated[Way, typer.Option(help="`systemd` installs a timer; `crontab` and `github` print what you put there.")] = Way.SYSTEMD,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the units instead of installing them.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the timer away again.")] = False,
) -> None:
    """Look for drift every night. A machine that was off at the time looks when it is on again, where systemd starts it."""
    if not remove:
        must_be_up(stack)
    nightly = _nightly(stack, _time(at), _seconds(jitter))
    if by is Way.CRONTAB:
        typer.echo(timer.crontab(nightly), nl=False)
    elif by is Way.GITHUB:
        typer.echo(timer.github(nightly), nl=False)
    elif dry_run:
        typer.echo("\n".join(f"# {_folder() / name}\n{text}" for name, text in timer.systemd(nightly).items()), nl=False)
    elif remove:
        _removed(nightly)
    else:
        _installed(nightly)


def still_there(stack: str) -> list[Path]:
    """Units that look at the stack, installed here by this user."""
    return [file for name in timer.systemd(_nightly(stack, time(), 0)) if (file := _folder() / name).exists()]


def _nightly(stack: str, at: time, jitter_s: int) -> timer.Nightly:
    return timer.Nightly(stack, _program(), str(paths.drift_page(stack)), at, jitter_s, _environment())


def _program() -> str:
    """The `rackwright` of the environment that this one runs in."""
    return str(Path(sys.executable).with_name("rackwright"))


def _environment() -> dict[str, str]:
    chosen = os.environ.get("RACKWRIGHT_HOME")
    return {"RACKWRIGHT_HOME": str(paths.home())} if chosen else {}


def _time(asked: str) -> time:
    if not re.fullmatch(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", asked):
        raise BadInput(f"`{asked}` is no time of the day", path="--at", hint="hours and minutes, like 03:00")
    hour, minute = asked.split(":")
    return time(int(hour), int(minute))


def _seconds(asked: str) -> int:
    from pydantic_core import PydanticCustomError

    try:
        return 0 if asked == "0" else parse_seconds(asked)
    except PydanticCustomError as error:
        raise BadInput(f"`{asked}` is no duration", path="--jitter", hint="a number and s, m or h, like 15m") from error


def _folder() -> Path:
    """Where units belong: the system's for root, the user's own for anybody else."""
    return _SYSTEM if os.geteuid() == 0 else Path.home() / ".config" / "systemd" / "user"


def _systemctl(*words: str) -> None:
    own = [] if os.geteuid() == 0 else ["--user"]
    done = subprocess.run(["systemctl", *own, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RackwrightError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def _must_run_systemd() -> None:
    if not _BOOTED.is_dir() or shutil.which("systemctl") is None:
        raise BadInput(
            "systemd does not run on this machine",
            path="--by systemd",
            hint="`--by crontab` prints lines for cron, `--by github` a workflow",
        )


def _installed(nightly: timer.Nightly) -> None:
    _must_run_systemd()
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in timer.systemd(nightly).items():
        (folder / name).write_text(text, encoding="utf-8")
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", *_timers(nightly))
    typer.echo(f"{nightly.stack} is looked at every night from {nightly.at:%H:%M}: {folder / nightly.unit}.timer")
    if os.geteuid() != 0:
        typer.echo("  only while you are logged in, unless `loginctl enable-linger` was run once")


def _timers(nightly: timer.Nightly) -> list[str]:
    return [name for name in timer.systemd(nightly) if name.endswith(".timer")]


def _removed(nightly: timer.Nightly) -> None:
    _must_run_systemd()
    files = still_there(nightly.stack)
    if not files:
        typer.echo(f"there is no timer for {nightly.stack}")
        return
    _systemctl("disable", "--now", *_timers(nightly))
    for file in files:
        file.unlink()
    _systemctl("daemon-reload")
    typer.echo(f"removed {', '.join(str(file) for file in files)}")
