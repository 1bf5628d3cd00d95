"""Nodes that have failed so far in this run, for plugins of the same process: the callback writes, lookup and action read.

Ansible offers plays only those of the current one (`ansible_play_hosts`). The action runs in a process that is forked after the play
began, so that it finds what the lookup has computed for the play's hosts. Without the callback no node counts as failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


class FailedNodes:
    """Failed nodes by play, and those that a phase leaves out."""

    def __init__(self) -> None:
        self._plays: list[tuple[str, Any]] = []
        self._unreachable: dict[str, str] = {}
        self.not_reached: dict[str, str] = {}
        """Node -> failures of its prerequisites."""

    def begin_play(self, play: Any) -> None:
        """Remember a play, whose list of removed hosts Ansible fills: without those that a `rescue` kept."""
        self._plays.append((phase_of(play), play))

    def add_unreachable(self, name: str) -> None:
        """Remember in which phase a node was lost first."""
        if self._plays:
            self._unreachable.setdefault(name, self._plays[-1][0])

    def all(self, lost: Iterable[str] = ()) -> dict[str, str]:
        """Return node -> what happened to it. `lost`: nodes that were unreachable before the run."""
        found = {name: f"{name} is unreachable" for name in lost}
        for phase, play in self._plays:
            for name in play._removed_hosts:
                word = "was unreachable" if self._unreachable.get(name) == phase else "failed"
                found.setdefault(name, self.not_reached.get(name) or f"{name} {word} in {phase}")
        return found


def phase_of(play: Any) -> str:
    """Return the phase of a play: the name of its file, which Ansible knows with the line."""
    return Path(str(play.get_path()).rpartition(":")[0]).stem


FAILED_NODES = FailedNodes()
"""The nodes of this process's run."""
