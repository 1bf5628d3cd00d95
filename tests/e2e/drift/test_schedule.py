"""The units of `rackwright drift-schedule` under a node's own systemd; `rackwright` is a program there that notes how it is called."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.project import ROOT, Project

_NODE: Final = "worker1"
_SAID: Final = "/run/nightly"
_PROGRAM: Final = f"""#!/bin/sh
echo "$RACKWRIGHT_HOME $*" >>{_SAID}
exit 1
"""
"""As `rackwright drift` where something differs: exit code 1."""


def put(project: Project, file: str, text: str) -> None:
    """Write a file on the node."""
    said = project.ssh(_NODE, f"mkdir -p {shlex.quote(str(Path(file).parent))} && echo {shlex.quote(text)} >{shlex.quote(file)}")
    assert said.ok, said.output


@pytest.fixture
def units(lab: Project) -> Iterator[dict[str, str]]:
    """Yield the units that `drift-schedule --dry-run` prints, by path, installed on the node; remove them afterwards."""
    said = lab.rackwright("drift-schedule", lab.stack, "--dry-run", "--at", "03:00", "--jitter", "0")
    assert said.ok, said.output
    parts = re.split(r"^# (/\S+)\n", said.output, flags=re.MULTILINE)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    program = str(ROOT / ".venv/bin/rackwright")
    for file, text in found.items():
        put(lab, file, text)
    put(lab, program, _PROGRAM)
    assert lab.ssh(_NODE, f"chmod +x {shlex.quote(program)} && systemctl daemon-reload").ok
    yield found
    names = " ".join(Path(file).name for file in found)
    timers = " ".join(Path(file).name for file in found if file.endswith(".timer"))
    lab.ssh(_NODE, f"systemctl disable --now {timers}; systemctl reset-failed {names}; rm -f {' '.join(found)} {program} {_SAID}")
    lab.ssh(_NODE, f"rmdir --parents --ignore-fail-on-non-empty {Path(program).parent}; rm -f /var/lib/systemd/timers/stamp-rackwright-*")
    lab.ssh(_NODE, "systemctl daemon-reload")


def test_systemd_accepts_units(lab: Project, units: dict[str, str]) -> None:
    said = lab.ssh(_NODE, f"systemd-analyze verify {' '.join(units)} 2>&1")
    assert (said.ok, said.output) == (True, "")


def test_timer_catches_up_after_missed_night(lab: Project, units: dict[str, str]) -> None:
    """systemd stores the last elapse of a timer in a file's time; one from the day before yesterday has missed a night."""
    timer = Path(next(file for file in units if file.endswith(f"{lab.stack}.timer"))).name
    stamp = f"/var/lib/systemd/timers/stamp-{timer}"
    assert lab.ssh(_NODE, f"mkdir -p {Path(stamp).parent} && touch --date='2 days ago' {stamp} && systemctl enable --now {timer}").ok
    waited = lab.ssh(_NODE, f"for _ in $(seq 100); do grep -s . {_SAID} && break; sleep 0.1; done")
    assert waited.output == f"{lab.home} drift {lab.stack}\n"
    state = lab.ssh(
        _NODE, f"sleep 0.5; systemctl list-units --failed --plain --no-legend; systemctl show --property=NextElapseUSecRealtime {timer}"
    )
    assert timer.replace(".timer", ".service") in state.output, "a look that found something leaves its service failed"
    assert "03:00:00" in state.output, "and the next is tonight"


def test_overdue_timer_runs_every_hour(lab: Project, units: dict[str, str]) -> None:
    timer = Path(next(file for file in units if file.endswith("-overdue.timer"))).name
    assert lab.ssh(_NODE, f"systemctl enable --now {timer}; systemctl start {timer.replace('.timer', '.service')}").status == 1
    assert f"{lab.home} drift-history {lab.stack} --max-age 26h" in lab.ssh(_NODE, f"cat {_SAID}").output
    listed = lab.ssh(_NODE, f"systemctl show --property=ActiveState,NextElapseUSecRealtime {timer}").output
    assert "ActiveState=active" in listed and re.search(r":0[0-5]:\d\d ", listed), "within five minutes of a full hour"
