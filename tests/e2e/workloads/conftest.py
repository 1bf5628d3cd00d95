"""The lab in which the workloads run, and a training run in it."""

from __future__ import annotations

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
    child = lab.start([sys.executable, "-m", "rackwright.cli.main", "demo", lab.stack, "train", "--steps", STEPS])
    try:
        wait_for_step(lab)
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        child.communicate(timeout=MOST)


def wait_for_step(lab: Project) -> None:
    """Wait until the newest run has trained a step."""
    until = time.monotonic() + MOST
    while "step" not in lab.ssh("login0", "cat $(ls -td /mnt/sharedfs/validation/results/train-*/ | head -n 1)events-0.jsonl").output:
        assert time.monotonic() < until, "no step was trained"
        time.sleep(2)
