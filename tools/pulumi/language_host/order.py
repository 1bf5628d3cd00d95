"""Messages between host and fork server: one JSON document per line, an order in one direction, an exit code in the other."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import IO

SHOWN = 32
"""Exit code of a program whose error was already printed; the engine then adds no message."""


@dataclass(frozen=True)
class Order:
    """One run of the program, as requested by the engine."""

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
    """Write one message."""
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def send_order(stream: IO[str], order: Order) -> None:
    """Send a run to the fork server."""
    send(stream, asdict(order))


def receive_order(stream: IO[str]) -> Order | None:
    """Return the next order; None after the host exited."""
    line = stream.readline()
    return Order(**json.loads(line)) if line else None


def receive_code(stream: IO[str]) -> int | None:
    """Return a run's exit code; None after the fork server exited."""
    line = stream.readline()
    return int(json.loads(line)) if line else None
