"""Time limits that grow with how long this machine takes to start Python."""

from __future__ import annotations

import pytest

from rackwright import time_limits


@pytest.mark.parametrize(("times", "found"), [((5.0, 5.009), 1), ((5.0, 5.2), 7), ((5.0, 65.0), time_limits.MAX_SLOWNESS)])
def test_slowness_follows_the_start_of_python(monkeypatch: pytest.MonkeyPatch, times: tuple[float, float], found: int) -> None:
    readings = iter(times)
    monkeypatch.delenv("RACKWRIGHT_SLOWNESS", raising=False)
    monkeypatch.setattr(time_limits.time, "monotonic", lambda: next(readings))
    monkeypatch.setattr(time_limits.subprocess, "run", lambda *_, **__: None)
    assert time_limits.slowness() == found


@pytest.mark.parametrize(("given", "found"), [("4", 4), ("0", 1), ("400", time_limits.MAX_SLOWNESS)])
def test_environment_overrides_the_measurement(monkeypatch: pytest.MonkeyPatch, given: str, found: int) -> None:
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", given)
    assert time_limits.slowness() == found
