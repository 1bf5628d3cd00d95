"""A first `pulumi up`, killed at a random time: the next one repairs it, or `destroy` removes it, with nothing left in either case."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import Project, clone

_LONGEST = 18.0
"""Seconds; a first up of four nodes takes about as long."""
_BLOWS = [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGINT, True)]


@pytest.fixture
def nothing(tmp_path: Path) -> Iterator[Project]:
    """Yield a copy of the project whose stack was never up."""
    project = clone(tmp_path / "checkout")
    yield project
    project.remove()
    assert project.leftovers() == []


@pytest.mark.parametrize("turn", range(6))
def test_up_or_destroy_recovers_killed_first_up(nothing: Project, turn: int) -> None:
    blow, whole_group = _BLOWS[turn % len(_BLOWS)]
    moment = random.uniform(0.3, _LONGEST)
    told = f"{blow.name} after {moment:.1f} s, {'group' if whole_group else 'engine alone'}"
    child = nothing.start(nothing.pulumi_command("up"))
    time.sleep(moment)
    if child.poll() is None:
        (os.killpg if whole_group else os.kill)(child.pid, blow)
    killed, _ = child.communicate(timeout=120)
    if turn % 2:
        said = nothing.pulumi("up")
        assert said.ok, f"{told}\n{killed}\n--- the next up\n{said.output}"
        assert nothing.report()["verdict"] == "passed", told
    gone = nothing.pulumi("destroy")
    assert gone.ok, f"{told}\n{killed}\n--- destroy\n{gone.output}"
    assert nothing.leftovers() == [], f"{told}\n{killed}\n--- destroy\n{gone.output}"
    again = nothing.pulumi("destroy")
    assert again.ok and "warning" not in again.output.lower(), f"{told}\n{again.output}"
