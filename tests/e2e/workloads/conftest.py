"""The lab in which the workloads run, and a training run in it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support.project import Project, clone

STEPS = "2000"
MOST = 900.0
"""Seconds after which a state counts as absent."""
RUNS = "/mnt/sharedfs/validation/results"
"""Folder with a folder for each run."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a running stack like lab-train."""
    project = clone(tmp_path_factory.mktemp("workloads") / "checkout", like="lab-train")
    try:
        project.run_checked("up", timeout=2400)
        yield project
    finally:
        project.pulumi("destroy")
        project.remove()


@pytest.fixture
def training(lab: Project) -> Iterator[subprocess.Popen[str]]:
    """Yield a training run in progress."""
    earlier = runs(lab)
    child = lab.start([sys.executable, "-m", "rackwright.cli.main", "demo", lab.stack, "train", "--steps", STEPS])
    try:
        wait_for_step(lab, earlier)
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        child.communicate(timeout=MOST)


def runs(lab: Project, trained: str = "") -> set[str]:
    """Return the names of training runs; `trained`: of those whose first rank has written this event."""
    files = f'grep -ls \'"event": "{trained}"\' {RUNS}/train-*/events-0.jsonl' if trained else f"ls -d {RUNS}/train-*/"
    return set(re.findall(rf"^{RUNS}/(train-[^/]+)/", lab.ssh("login0", files).output, re.MULTILINE))


def wait_for_step(lab: Project, earlier: set[str]) -> None:
    """Wait until a run that is not among earlier ones has trained a step."""
    until = time.monotonic() + MOST
    while not runs(lab, "step") - earlier:
        assert time.monotonic() < until, "no step was trained"
        time.sleep(2)
