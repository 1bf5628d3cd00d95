"""Schedules of a nightly drift scan: systemd units, crontab lines, or a GitHub Actions workflow."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from typing import Final

import yaml

OVERDUE: Final = "26h"
"""A day and two hours: without a completed scan in that time a notification is sent, once per gap."""


@dataclass(frozen=True, slots=True)
class ScheduledScan:
    """Nightly scan of one stack."""

    stack: str
    program: str
    """Absolute path of this environment's `rackwright`."""
    page: str
    """Path of the scan's page."""
    at: time
    jitter_s: int
    """Maximum random delay of the start, in seconds, so that many stacks do not start at once."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the scan: the state directory."""
    checks_out: bool = False
    """Whether a workflow checks its repository out first: the stack file is in the user's repository and not next to the program."""

    @property
    def unit(self) -> str:
        """Return the name of the systemd units, without suffix."""
        return f"rackwright-drift-{self.stack}"


def systemd(nightly: ScheduledScan) -> dict[str, str]:
    """Return unit files by name. A scan that finds drift leaves its unit in state `failed`: `systemctl --failed` lists it.

    systemd.timer(5): a machine that was off at the time runs the scan after its next boot (`Persistent`).
    """
    scan = _service(nightly, f"Scan {nightly.stack} for drift", f"drift {nightly.stack}")
    watch = _service(nightly, f"Check that drift scans of {nightly.stack} finish", f"drift-history {nightly.stack} --max-age {OVERDUE}")
    every_night = f"OnCalendar=*-*-* {nightly.at:%H:%M}:00\nRandomizedDelaySec={nightly.jitter_s}\nPersistent=true"
    return {
        f"{nightly.unit}.service": scan,
        f"{nightly.unit}.timer": _timer(f"Scan {nightly.stack} for drift every night", every_night),
        f"{nightly.unit}-overdue.service": watch,
        f"{nightly.unit}-overdue.timer": _timer(
            f"Check that drift scans of {nightly.stack} finish", "OnCalendar=hourly\nRandomizedDelaySec=300"
        ),
    }


def _service(nightly: ScheduledScan, description: str, words: str) -> str:
    environment = "".join(f"Environment={_systemd_word(f'{name}={value}')}\n" for name, value in nightly.environment.items())
    return (
        f"[Unit]\nDescription={description}\nAfter=network-online.target\nWants=network-online.target\n\n"
        f"[Service]\nType=oneshot\n{environment}ExecStart={_systemd_word(nightly.program)} {words}\nTimeoutStartSec=1h\nNice=10\n"
    )


def _timer(description: str, when: str) -> str:
    return f"[Unit]\nDescription={description}\n\n[Timer]\n{when}\n\n[Install]\nWantedBy=timers.target\n"


def crontab(nightly: ScheduledScan) -> str:
    """Return two lines. crontab(5): `%` would end the command, so it is escaped; sh has no random numbers, so shuf generates one."""
    words = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in nightly.environment.items()), shlex.quote(nightly.program)])
    put_off = f"sleep $(shuf -n 1 -i 0-{nightly.jitter_s}); " if nightly.jitter_s else ""
    night = f"{nightly.at.minute} {nightly.at.hour} * * * {put_off}{words} drift {nightly.stack}"
    hour = f"{(nightly.at.minute + 30) % 60} * * * * {words} drift-history {nightly.stack} --max-age {OVERDUE}"
    return f"{night}\n{hour}\n".replace("%", r"\%")


def github(nightly: ScheduledScan) -> str:
    """Return a workflow for a self-hosted runner with this state directory, so that the nodes' keys stay there. Times are UTC."""
    scan = f"{shlex.quote(nightly.program)} drift {nightly.stack}"
    environment = {"env": dict(nightly.environment)} if nightly.environment else {}
    keep = {"name": f"drift-{nightly.stack}", "path": nightly.page, "if-no-files-found": "error"}
    validation = {"name": "Validate the project", "run": f"{shlex.quote(nightly.program)} validate", **environment}
    checkout = [{"name": "Check out the stack files", "uses": "actions/checkout@v4"}, validation] if nightly.checks_out else []
    steps = [
        *checkout,
        {"name": "Scan for drift", "run": scan, **environment},
        {"name": "Upload the report", "if": "always()", "uses": "actions/upload-artifact@v4", "with": keep},
    ]
    workflow = {
        "name": f"drift of {nightly.stack}",
        "on": {"schedule": [{"cron": f"{nightly.at.minute} {nightly.at.hour} * * *"}], "workflow_dispatch": {}},
        "concurrency": {"group": nightly.unit},
        "permissions": {"contents": "read"} if checkout else {},
        "jobs": {"drift": {"runs-on": ["self-hosted", "rackwright"], "timeout-minutes": 60, "steps": steps}},
    }
    text: str = yaml.safe_dump(workflow, sort_keys=False, width=160)
    return text


def _systemd_word(word: str) -> str:
    """Return one word of a unit file: systemd.syntax(7) for quotes, `%` begins a specifier (systemd.unit(5))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
