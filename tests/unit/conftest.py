"""Tests of this folder need Python and a shell: no podman, no root, no network, and no wall clock.

A test that sleeps, or that takes more than 2 s of CPU with its set-up, fails. Such tests belong in tests/components.

Property tests run 20 examples each, in `make test-full` 300 (`RACKWRIGHT_EXAMPLES=full`, without the limit of CPU).
They have no deadline: how busy a machine is says nothing of code.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

MAX_SLEEP = 0.05
"""Seconds that a test may sleep at a time."""
MAX_CPU = 2.0
"""Seconds of CPU that a test may take in this process, with its set-up, where the baseline takes BASELINE_CPU. Children may be of earlier
tests."""
BASELINE_CPU = 0.05
"""Seconds of CPU of the baseline on the machine for which MAX_CPU was chosen; a machine at rest needs half of it."""
EXAMPLES = os.environ.get("RACKWRIGHT_EXAMPLES", "fast")

settings.register_profile("fast", deadline=None, max_examples=20)
settings.register_profile("full", deadline=None, max_examples=300)
settings.load_profile(EXAMPLES)
_started = pytest.StashKey[float]()
_sleep = time.sleep


def sleep_briefly(seconds: float) -> None:
    """Sleep, or fail the test where that is a wait on the wall clock."""
    if seconds > MAX_SLEEP:
        pytest.fail(f"the test sleeps {seconds} s: give the code a clock or an event that the test controls")
    _sleep(seconds)


def measure_baseline() -> float:
    """Seconds of CPU of a fixed piece of work, now: a process that shares its core with others needs more CPU for the same work."""
    started = time.process_time()
    words = [str(number) for number in range(100_000)]
    assert len({word: len(word) for word in sorted(words)}) == len(words)
    return time.process_time() - started


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the CPU time before fixtures."""
    item.stash[_started] = time.process_time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Fail a test that takes too much CPU, once it has ended; 300 examples may."""
    report = yield
    if call.when == "teardown" and report.passed and EXAMPLES == "fast" and (took := time.process_time() - item.stash[_started]) > MAX_CPU:
        if took < (limit := MAX_CPU * max(1.0, measure_baseline() / BASELINE_CPU)):
            return report
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {took:.1f} s of CPU, more than {limit:.1f} s: cache its set-up, or move it to tests/components"
    return report


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test run its own folder for ssh's control sockets, and refuse sleeps."""
    folder: Path = tmp_path_factory.getbasetemp() / "run"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(time, "sleep", sleep_briefly)
