"""Whether the machine below this one gives its CPU to others: then a time-out that passes says nothing about the project."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from project import Project

_QUICK: Final = 4.0
"""Seconds for a preview of what is up, about 1.2 on two quiet cores: a machine that takes longer is slowed by what `steal` hides."""
_BEARABLE: Final = 0.25
"""Share of CPU time taken by others (`steal`, man 5 proc_stat) up to which tests of time-outs mean something."""


def _times() -> tuple[int, int]:
    """Ticks taken by others, and all ticks, since boot."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[7], sum(ticks) - ticks[3]


_AT_START: Final = _times()


def stolen() -> float:
    """The share of busy time since the session began that others took."""
    steal, busy = (now - before for now, before in zip(_times(), _AT_START, strict=True))
    return steal / busy if busy > 0 else 0.0


def skip_where_starved(item: pytest.Item) -> None:
    """Skip a test marked `timely` on a machine that is not its own master."""
    if item.get_closest_marker("timely") and (share := stolen()) > _BEARABLE:
        pytest.skip(f"others take {share:.0%} of this machine's CPU: its time-outs tell nothing")


def skip_where_slow(project: Project) -> None:
    """Skip what follows where even looking at what is up takes several times as long as it should."""
    seconds = project.must("preview").seconds
    if seconds > _QUICK:
        pytest.skip(
            f"a preview took {seconds:.1f} s, more than {_QUICK:.0f} s: this machine is too slow for its time-outs to tell anything"
        )
