"""Tells how far a build is: lines for a person, or one JSON object per line for a program."""

from __future__ import annotations

import json
import time
from typing import Any

from bootstrap.stage import Stage, Stages, elapsed
from bundle.recipe import STAGES

_PAUSE = 0.5
"""Seconds between two notes of a stage: a program that shows them needs no more."""


class Progress:
    """Stages that are counted, for a person."""

    def __init__(self, of: int = STAGES) -> None:
        self.of = of
        self._stages = Stages()

    def stage(self, number: int, what: str) -> Stage:
        """A stage, to be used in a `with`."""
        return self._stages.stage(f"{number}/{self.of} {what}")

    def kept(self, number: int, what: str) -> None:
        """A stage that an interrupted build had finished."""
        print(f"==> {number}/{self.of} {what} cached", flush=True)

    def waiting(self) -> None:
        """Another process is building the same."""
        print("==> waiting for another build of this bundle", flush=True)

    def end(self) -> None:
        """All stages are done."""
        self._stages.end()


class Lines(Progress):
    """The same for a program."""

    def stage(self, number: int, what: str) -> Stage:
        """A stage whose notes are events."""
        return _Told({"stage": number, "of": self.of, "what": what})

    def kept(self, number: int, what: str) -> None:
        """An event."""
        _tell(stage=number, of=self.of, what=what, detail="cached")

    def waiting(self) -> None:
        """An event."""
        _tell(stage=0, of=self.of, what="waiting", detail="for another build of this bundle")

    def end(self) -> None:
        """No event: what follows says it."""


class _Told(Stage):
    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__(f"{event['stage']}/{event['of']} {event['what']}")
        self._event = event
        self._since = time.monotonic()
        self._next = 0.0

    def __enter__(self) -> Stage:
        _tell(**self._event, detail="begun")
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        _tell(**self._event, detail=f"{'stopped after' if kind else 'done in'} {elapsed(self._since)}")

    def note(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            _tell(**self._event, detail=text)


def _tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)
