"""Clean looks for drift by the hundred, with jobs running: no false alarm, and no process, file or connection is left by any of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project

LOOKS = int(os.environ.get("RACKWRIGHT_SOAK_LOOKS", "100"))
"""At five seconds each, 1000 take an hour and a half."""
SETTLED = 3
"""Looks after which connections stand and records are kept."""

pytestmark = [pytest.mark.soak, pytest.mark.timely]


@pytest.fixture
def busy(lab: Project) -> Iterator[Project]:
    """The stack with jobs that come and go on every worker, watched with what nobody declared."""
    lab.edit(lambda cluster: cluster.update(drift={"traces": True}))
    work = "while :; do srun --quiet --immediate=30 --gres=gpu:1 sh -c 'sleep 2; id >/dev/null'; done"
    started = lab.ssh("login0", f"systemd-run --quiet --unit=soak --uid=alice sh -c {json.dumps(work)}")
    assert started.ok, started.output
    yield lab
    lab.ssh("login0", "systemctl stop soak; scancel --user=alice")
    lab.edit(lambda cluster: cluster.pop("drift"))


def own(folder: Path) -> dict[str, int]:
    """What a copy of the project holds on this machine: processes that were started in it, and files of its home."""
    processes = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                processes += str(folder) in (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
    return {"processes": processes, "files": sum(1 for _ in folder.rglob("*") if "__pycache__" not in _.parts)}


def on_nodes(project: Project) -> dict[str, int]:
    """Connections to each node's SSH server, and what is left in its folder for temporary files."""
    count = "ss -Htn state established '( sport = :22 )' | wc -l; ls -A /tmp | wc -l"
    told = {node: project.ssh(node, count).output.split() for node in ("login0", "worker0", "worker1", "storage0")}
    return {f"{node} {what}": int(value) for node, both in told.items() for what, value in zip(("connections", "files"), both, strict=True)}


def test_a_hundred_looks_find_nothing_and_leave_nothing(busy: Project) -> None:
    before: dict[str, int] = {}
    for number in range(SETTLED + LOOKS):
        said = busy.rackwright("drift", busy.stack, "--json")
        found = json.loads(said.output[said.output.index("{\n") :])
        assert found["state"] == "clean", f"look {number}: {json.dumps(found['differences'] or found['layers'], indent=1)}"
        if number == SETTLED - 1:
            before = {**own(busy.folder), **on_nodes(busy)}
    after = {**own(busy.folder), **on_nodes(busy)}
    grown = {what: (before[what], value) for what, value in after.items() if value > before[what]}
    assert grown == {}, f"after {LOOKS} looks"
    ended = busy.ssh("login0", "sacct --allusers --noheader --format=State --starttime=now-1hours | sort | uniq -c").output
    assert "COMPLETED" in ended and "FAILED" not in ended, f"jobs ran meanwhile: {ended}"
    assert subprocess.run(
        ["podman", "ps", "--quiet", "--filter", f"label=rackwright.stack={busy.stack}"], capture_output=True, check=True
    ).stdout
