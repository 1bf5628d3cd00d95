"""Tests of time-outs are skipped where others take the CPU, and only there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import starvation


def item(*marks: str) -> SimpleNamespace:
    """A test with these marks."""
    return SimpleNamespace(get_closest_marker=lambda name: name if name in marks else None)


@pytest.mark.parametrize(("steal", "skipped"), [(0.1, False), (0.6, True)])
def test_the_share_that_others_took_decides(monkeypatch: pytest.MonkeyPatch, steal: float, skipped: bool) -> None:
    start = starvation._AT_START
    monkeypatch.setattr(starvation, "_times", lambda: (start[0] + int(1000 * steal), start[1] + 1000))
    starvation.skip_where_starved(item())
    if skipped:
        with pytest.raises(pytest.skip.Exception, match="others take 60% of this machine's CPU"):
            starvation.skip_where_starved(item("timely"))
    else:
        starvation.skip_where_starved(item("timely"))


def test_the_kernel_s_counters_are_read() -> None:
    steal, busy = starvation._times()
    assert 0 <= steal <= busy


@pytest.mark.parametrize(("seconds", "skipped"), [(1.2, False), (7.0, True)])
def test_a_machine_on_which_a_preview_takes_long_is_too_slow(seconds: float, skipped: bool) -> None:
    project = SimpleNamespace(must=lambda verb: SimpleNamespace(seconds=seconds if verb == "preview" else 0.0))
    if skipped:
        with pytest.raises(pytest.skip.Exception, match=r"a preview took 7\.0 s, more than 4 s"):
            starvation.skip_where_slow(project)
    else:
        starvation.skip_where_slow(project)
