"""Hundreds of drift scans of a clean stack with running jobs: no false alarm, and no leftover process, file or connection."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support.project import Project

LOOKS = int(os.environ.get("RACKWRIGHT_SOAK_LOOKS", "100"))
"""Number of scans; at five seconds each, 1000 take an hour and a half."""
TOLD = 50
"""Number of scans after which progress is printed and leftovers are counted."""
SETTLED = 3
"""Number of scans after which connections are open and records are written."""


@pytest.fixture
def busy(lab: Project) -> Iterator[Project]:
    """Yield the stack with jobs that start and end on every worker."""
    scratch = lab.folder.parent / "tmp"
    scratch.mkdir()
    lab.environment["TMPDIR"] = str(scratch)
    work = "while :; do srun --quiet --immediate=30 --gres=gpu:1 sh -c 'sleep 2; id >/dev/null'; done"
    started = lab.ssh("login0", f"systemd-run --quiet --unit=soak --uid=alice sh -c {json.dumps(work)}")
    assert started.ok, started.output
    yield lab
    lab.ssh("login0", "systemctl stop soak; scancel --user=alice")
    del lab.environment["TMPDIR"]


def own(project: Project) -> dict[str, int]:
    """Return what a copy of the project has on this machine: processes that name it, and files of its folder, its state and /tmp."""
    folder = project.folder
    processes = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                processes += str(folder) in (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
    return {"processes": processes, "files": sum(1 for found in folder.parent.rglob("*") if "__pycache__" not in found.parts)}


def on_nodes(project: Project) -> dict[str, int]:
    """Return connections to each node's SSH server, and leftovers in its folder for temporary files."""
    count = "ss -Htn state established '( sport = :22 )' | wc -l; ls -A /tmp | wc -l"
    told = {node: project.ssh(node, count).output.split() for node in ("login0", "worker0", "worker1", "storage0")}
    return {f"{node} {what}": int(value) for node, both in told.items() for what, value in zip(("connections", "files"), both, strict=True)}


def look(project: Project, number: int) -> dict[str, Any]:
    """Return the report of one scan, which must be clean."""
    said = project.rackwright("drift", project.stack, "--json")
    found: dict[str, Any] = json.loads(said.output[said.output.index("{\n") :])
    assert found["state"] == "clean", f"look {number}: {json.dumps(found['differences'] or found['layers'], indent=1)}"
    return {"seconds": said.seconds, **found}


def test_repeated_scans_find_and_leave_nothing(busy: Project, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(SETTLED):
        look(busy, number)
    before = {**own(busy), **on_nodes(busy)}
    took: list[float] = []
    jobs = 0
    for number in range(SETTLED, SETTLED + LOOKS):
        took.append(look(busy, number)["seconds"])
        if len(took) % TOLD == 0 or len(took) == LOOKS:
            grown = {what: (before[what], value) for what, value in {**own(busy), **on_nodes(busy)}.items() if value > before[what]}
            counted = "sacct --allusers --noheader --parsable2 --format=State --starttime=2020-01-01 | sort | uniq -c"
            ended = " ".join(busy.ssh("login0", counted).output.split())
            with capsys.disabled():
                print(f"\n{len(took)} clean looks, median {median(took):.1f} s, longest {max(took):.1f} s; jobs: {ended}")
            assert grown == {}, f"after {len(took)} looks"
            assert "FAILED" not in ended, f"jobs ran meanwhile: {ended}"
            count = int(re.search(r"(\d+) COMPLETED", ended)[1])  # type: ignore[index]
            assert count > jobs, "jobs no longer come and go"
            jobs = count
    assert subprocess.run(
        ["podman", "ps", "--quiet", "--filter", f"label=rackwright.stack={busy.stack}"], capture_output=True, check=True
    ).stdout
