"""Tests of this folder need Python and a shell: no podman, no root, no network, and no wall clock.

A test that sleeps fails, and so does one that would start Pulumi, which creates nodes. A test that takes far more than 2 s of CPU with its
set-up fails, too. Such tests belong in tests/components.

Property tests run 20 examples each, in `make test-full` 300 (`RACKWRIGHT_EXAMPLES=full`, without the limit of CPU).
They have no deadline: the load of a machine is not a property of the code.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from rackwright.drivers import pulumi
from rackwright.time_limits import slowness

MAX_SLEEP = 0.05
"""Seconds that a test may sleep at a time."""
MAX_CPU = 2.0
"""Seconds of CPU that a test should take at most in this process, with its set-up; `make unit` lists the tests that took more. Children
may be of earlier tests."""
FAR_TOO_MUCH = 5
"""Factor of MAX_CPU from which a test fails. Beside a load of 9 on two cores, tests of 0.4 to 0.8 s took 2.2 to 3.3 s of CPU, and a
piece of work measured after them did not show it: the load had changed. On an emulated processor they take ten times as much, and so
does a start of Python, by which the limit grows (`slowness`)."""
EXAMPLES = os.environ.get("RACKWRIGHT_EXAMPLES", "fast")

settings.register_profile("fast", deadline=None, max_examples=20)
settings.register_profile("full", deadline=None, max_examples=300)
settings.load_profile(EXAMPLES)
_started = pytest.StashKey[float]()
_sleep = time.sleep
_sleep_in_loop = asyncio.sleep


def sleep_briefly(seconds: float) -> None:
    """Sleep, or fail the test where that is a wait on the wall clock."""
    if seconds > MAX_SLEEP:
        pytest.fail(f"the test sleeps {seconds} s: give the code a clock or an event that the test controls")
    _sleep(seconds)


async def sleep_briefly_in_loop(delay: float, result: Any = None) -> Any:
    """Sleep, and fail the test where that was a wait on the wall clock; a longer sleep may be started, and cancelled."""
    await _sleep_in_loop(delay)
    if delay > MAX_SLEEP:
        pytest.fail(f"the test slept {delay} s: give the code a clock or an event that the test controls")
    return result


def refuse_pulumi() -> Path:
    """Fail the test that asks for the program."""
    pytest.fail("the test starts Pulumi: replace `rackwright.drivers.pulumi.executable` or what calls it")


@pytest.fixture(autouse=True)
def restore_environment() -> Iterator[None]:
    """Restore the environment variables: tests call programs of nodes in this process, which set PATH and USER."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the CPU time before fixtures."""
    item.stash[_started] = time.process_time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Record a test that takes too much CPU, once it has ended, and fail one that takes far too much; 300 examples may."""
    report = yield
    if call.when != "teardown" or not report.passed or EXAMPLES != "fast":
        return report
    if (took := time.process_time() - item.stash[_started]) > MAX_CPU:
        report.user_properties.append(("cpu_seconds", round(took, 1)))
    if took > MAX_CPU * FAR_TOO_MUCH and took > MAX_CPU * FAR_TOO_MUCH * slowness():
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {took:.1f} s of CPU: cache its set-up, or move it to tests/components"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the tests that took more than MAX_CPU; on a busy machine some of them do so for the load alone."""
    reports = [report for kind in ("", "passed") for report in terminalreporter.stats.get(kind, []) if hasattr(report, "user_properties")]
    slow = {report.nodeid: seconds for report in reports for name, seconds in report.user_properties if name == "cpu_seconds"}
    for test, seconds in sorted(slow.items(), key=lambda one: -one[1]):
        terminalreporter.write_line(f"{test}: {seconds} s of CPU (more than {MAX_CPU} s; load of the machine, or a slow set-up)")


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test run its own folder for ssh's control sockets; refuse sleeps, and Pulumi."""
    folder: Path = tmp_path_factory.getbasetemp() / "run"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(time, "sleep", sleep_briefly)
    monkeypatch.setattr(asyncio, "sleep", sleep_briefly_in_loop)
    monkeypatch.setattr(pulumi, "executable", refuse_pulumi)


@pytest.fixture
def sleeps_skipped(_isolated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sleep set the clock of event loops forward instead of waiting."""
    skipped, read = 0.0, asyncio.BaseEventLoop.time

    async def skip(delay: float, result: Any = None) -> Any:
        nonlocal skipped
        skipped += delay
        await _sleep_in_loop(0)
        return result

    monkeypatch.setattr(asyncio, "sleep", skip)
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda loop: read(loop) + skipped)
