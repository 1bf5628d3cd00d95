"""Time limits on a node: a slow one waits longer, one that is not slow does not."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import probe, slowness


def test_finished_command_returns_its_output() -> None:
    done = slowness.run_patiently(["sh", "-c", "echo out; echo err >&2; exit 3"], 30)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_slow_node_waits_a_multiple_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slowness, "slowness", lambda: 15)
    assert slowness.run_patiently(["sh", "-c", "sleep 0.3; echo late"], 0.1).stdout == "late\n"


@pytest.mark.parametrize(("factor", "limit"), [(1, 0.05), (3, 0.15)])
def test_command_without_an_end_is_killed_and_reported(monkeypatch: pytest.MonkeyPatch, factor: int, limit: float) -> None:
    monkeypatch.setattr(slowness, "slowness", lambda: factor)
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        slowness.run_patiently(["sleep", "60"], 0.05)
    assert caught.value.timeout == pytest.approx(limit)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("factor", "seconds"), [(1, 30), (10, 300)])
def test_slow_node_retries_for_a_multiple_of_the_time(monkeypatch: pytest.MonkeyPatch, factor: int, seconds: int) -> None:
    clock = Clock()
    monkeypatch.setattr(probe, "time", clock)
    monkeypatch.setattr(probe, "slowness", lambda: factor)
    assert list(probe.ticks(clock.now + 30))[-1] - 100 == pytest.approx(seconds, abs=0.3)


def test_look_without_patience_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(probe, "time", clock)
    monkeypatch.setattr(probe, "slowness", lambda: 15)
    assert len(list(probe.ticks(clock.now))) == 2
