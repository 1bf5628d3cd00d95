"""What passes between host and nursery: one JSON document a line, an order one way, an exit code the other."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import IO

SHOWN = 32
"""Exit code of a program whose error has already been shown; the engine then adds nothing of its own."""


@dataclass(frozen=True)
class Order:
    """One run of the program, as the engine asked for it."""

    monitor: str
    project: str
    stack: str
    organization: str
    root: str
    directory: str
    entry: str
    args: list[str]
    config: dict[str, str]
    secret_keys: list[str]
    dry_run: bool
    parallel: int


def send(stream: IO[str], message: object) -> None:
    """Writes one message."""
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def send_order(stream: IO[str], order: Order) -> None:
    """Asks the nursery for a run."""
    send(stream, asdict(order))


def receive_order(stream: IO[str]) -> Order | None:
    """The next order; None once the host is gone."""
    line = stream.readline()
    return Order(**json.loads(line)) if line else None


def receive_code(stream: IO[str]) -> int | None:
    """A run's exit code; None once the nursery is gone."""
    line = stream.readline()
    return int(json.loads(line)) if line else None
