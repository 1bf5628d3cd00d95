"""Time limits on a node: a slow one waits longer, one that is not slow does not."""

from __future__ import annotations

import subprocess
import time

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


@pytest.mark.parametrize(("factor", "least", "most"), [(1, 0.05, 0.5), (10, 0.5, 5.0)])
def test_slow_node_retries_for_a_multiple_of_the_time(monkeypatch: pytest.MonkeyPatch, factor: int, least: float, most: float) -> None:
    monkeypatch.setattr(probe, "slowness", lambda: factor)
    began = time.monotonic()
    assert least <= list(probe.ticks(began + 0.05))[-1] - began < most


def test_look_without_patience_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "slowness", lambda: 15)
    assert len(list(probe.ticks(time.monotonic()))) <= 2
