"""A run of the phases with a limit ends there, with the results until then."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import ansible
from rackwright.drivers.process import ProcessTimeoutError

CHANGED = {"event": "changed", "host": "worker1", "phase": "scheduler", "task": "Run MUNGE"}


async def quiet(_: str) -> None:
    pass


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the child: it reports one change and then waits. Return the time limits of the runs."""
    given: list[float] = []

    async def stream(_command: Any, on_line: Any, *, timeout: float, **_: Any) -> None:
        given.append(timeout)
        await on_line(json.dumps(CHANGED))
        raise ProcessTimeoutError(f"python: no end after {timeout:.0f} s")

    monkeypatch.setattr(ansible, "stream", stream)
    return given


def play(**options: Any) -> ansible.PlaybookResult:
    return asyncio.run(ansible.play(Path("/x"), "site.yml", inventory=Path("/x/i"), on_progress=quiet, **options))


def test_results_until_the_limit_are_kept(limits: list[float]) -> None:
    found = play(check=True, limit_s=9.0)
    assert limits == [9.0] and found.cut_after == 9.0
    assert [one.task for one in found.changed] == ["Run MUNGE"]


def test_run_without_limit_that_does_not_end_is_an_error(limits: list[float]) -> None:
    with pytest.raises(ProcessTimeoutError):
        play()
    assert limits == [ansible._LONGEST]
