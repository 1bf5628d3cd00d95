"""Generation in batches: requests wait in a bounded queue, up to eight are generated together, and each may join or leave at any token.

The batch has no key-value cache: a step computes all its texts again. For texts of at most 128 bytes the cost of a step is that of its
batch, so requests join without a prefill of their own.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from rackwright.workloads.inference.metrics import Metrics

BATCH: Final = 8
"""Requests that are generated together: the batch of the measured runs (docs/workloads/serving.md)."""
QUEUE: Final = 24
"""Requests that may wait. Chosen: three batches, so that the last one waits three times the duration of a request."""


class Model(Protocol):
    """What computes the next tokens. A token is a byte."""

    @property
    def context(self) -> int:
        """Largest number of tokens of prompt and answer."""

    def next_tokens(self, texts: Sequence[bytes], temperatures: Sequence[float]) -> list[int]:
        """Return the next byte of each text. Temperature 0 takes the most probable one."""


class QueueFullError(Exception):
    """As many requests wait as may wait."""


@dataclass(eq=False)
class Generation:
    """A request in progress. `tokens` receives each byte, then the reason why the generation ended."""

    prompt: bytes
    max_tokens: int
    temperature: float = 1.0
    arrived: float = field(default_factory=time.monotonic)
    started: float = 0.0
    first: float = 0.0
    output: bytearray = field(default_factory=bytearray)
    tokens: queue.SimpleQueue[int | str] = field(default_factory=queue.SimpleQueue)
    is_cancelled: bool = False
    """Set by the connection when its client has gone."""


class Engine:
    """The queue, the batch, and the thread that computes one token of each running request at a time."""

    def __init__(self, model: Model, metrics: Metrics, *, batch: int = BATCH, limit: int = QUEUE) -> None:
        self.model, self.metrics = model, metrics
        self._batch, self._limit = batch, limit
        self._waiting: deque[Generation] = deque()
        self._running: list[Generation] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, generation: Generation) -> None:
        """Queue a request. Raises QueueFullError if it would wait behind too many."""
        with self._changed:
            free = self._batch - len(self._running)
            if len(self._waiting) >= self._limit + free:
                self.metrics.refused()
                raise QueueFullError
            self._waiting.append(generation)
            self._count()
            self._changed.notify()

    def is_alive(self) -> bool:
        """Return whether tokens are computed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread after the step in progress."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._admit():
            batch = list(self._running)
            try:
                texts = [(one.prompt + bytes(one.output))[-self.model.context :] for one in batch]
                found = self.model.next_tokens(texts, [one.temperature for one in batch])
            except Exception as error:  # Whatever fails in a model must reach the clients of the batch.
                self._leave(batch, f"error: {error}")
                continue
            for one, token in zip(batch, found, strict=True):
                self._deliver(one, token)

    def _admit(self) -> bool:
        """Fill the batch from the queue; wait while there is nothing to compute. Return False when the engine is closed."""
        with self._changed:
            self._drop_cancelled()
            self._count()
            while not self._waiting and not self._running and not self._is_closed:
                self._changed.wait()
            while self._waiting and len(self._running) < self._batch:
                one = self._waiting.popleft()
                one.started = time.monotonic()
                self.metrics.waited(one.started - one.arrived)
                self._running.append(one)
            self._count()
            return not self._is_closed

    def _drop_cancelled(self) -> None:
        self.metrics.aborted(sum(one.is_cancelled for one in (*self._running, *self._waiting)))
        self._running = [one for one in self._running if not one.is_cancelled]
        self._waiting = deque(one for one in self._waiting if not one.is_cancelled)

    def _deliver(self, one: Generation, token: int) -> None:
        if not one.output:
            one.first = time.monotonic()
            self.metrics.first_token(one.first - one.arrived, len(one.prompt))
        one.output.append(token)
        self.metrics.generated()
        one.tokens.put(token)
        if len(one.output) >= one.max_tokens:
            self.metrics.finished(time.monotonic() - one.arrived)
            self._leave([one], "length")

    def _leave(self, ended: Sequence[Generation], reason: str) -> None:
        with self._changed:
            self._running = [one for one in self._running if one not in ended]
            self._count()
        for one in ended:
            one.tokens.put(reason)

    def _count(self) -> None:
        self.metrics.occupancy(len(self._running), len(self._waiting))
