"""What makes a look for drift run every night: systemd units, a crontab line, or a workflow of GitHub Actions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time

import yaml


@dataclass(frozen=True, slots=True)
class Nightly:
    """One stack, looked at once a day."""

    stack: str
    program: str
    """The `rackwright` of this environment, by its whole path."""
    page: str
    """Where the look leaves its page."""
    at: time
    jitter_s: int
    """The start is put off by up to so much, so that many stacks do not begin at once."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the look has to know of this shell: where the home is."""

    @property
    def unit(self) -> str:
        """The name of its systemd units, without the kind."""
        return f"rackwright-drift-{self.stack}"


def systemd(nightly: Nightly) -> dict[str, str]:
    """Unit files by name. A look that found something leaves its service failed, so that `systemctl --failed` lists it.

    systemd.timer(5): a machine that was off at the time looks when it is on again (`Persistent`).
    """
    environment = "".join(f"Environment={_systemd_word(f'{name}={value}')}\n" for name, value in nightly.environment.items())
    service = (
        f"[Unit]\nDescription=Look for drift of {nightly.stack}\nAfter=network-online.target\nWants=network-online.target\n\n"
        f"[Service]\nType=oneshot\n{environment}ExecStart={_systemd_word(nightly.program)} drift {nightly.stack}\n"
        "TimeoutStartSec=1h\nNice=10\n"
    )
    timer = (
        f"[Unit]\nDescription=Look for drift of {nightly.stack} every night\n\n"
        f"[Timer]\nOnCalendar=*-*-* {nightly.at:%H:%M}:00\nRandomizedDelaySec={nightly.jitter_s}\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return {f"{nightly.unit}.service": service, f"{nightly.unit}.timer": timer}


def crontab(nightly: Nightly) -> str:
    """One line. crontab(5): `%` would end the command, so it is escaped; sh has no random number, so shuf draws it."""
    words = [*(f"{name}={shlex.quote(value)}" for name, value in nightly.environment.items()), shlex.quote(nightly.program)]
    put_off = f"sleep $(shuf -n 1 -i 0-{nightly.jitter_s}); " if nightly.jitter_s else ""
    command = f"{put_off}{' '.join(words)} drift {nightly.stack}".replace("%", r"\%")
    return f"{nightly.at.minute} {nightly.at.hour} * * * {command}\n"


def github(nightly: Nightly) -> str:
    """A workflow for a runner of one's own that has this home: the nodes' keys stay where they are. GitHub counts in UTC."""
    look = f"{shlex.quote(nightly.program)} drift {nightly.stack}"
    environment = {"env": dict(nightly.environment)} if nightly.environment else {}
    keep = {"name": f"drift-{nightly.stack}", "path": nightly.page, "if-no-files-found": "error"}
    steps = [
        {"name": "Look", "run": look, **environment},
        {"name": "Keep the page", "if": "always()", "uses": "actions/upload-artifact@v4", "with": keep},
    ]
    workflow = {
        "name": f"drift of {nightly.stack}",
        "on": {"schedule": [{"cron": f"{nightly.at.minute} {nightly.at.hour} * * *"}], "workflow_dispatch": {}},
        "concurrency": {"group": nightly.unit},
        "permissions": {},
        "jobs": {"drift": {"runs-on": ["self-hosted", "rackwright"], "timeout-minutes": 60, "steps": steps}},
    }
    text: str = yaml.safe_dump(workflow, sort_keys=False, width=160)
    return text


def _systemd_word(word: str) -> str:
    """One word of a unit file: systemd.syntax(7) for quotes, `%` begins a specifier (systemd.unit(5))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
