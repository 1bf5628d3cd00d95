"""Signals that a block of code handles itself."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handled(numbers: Collection[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call a handler for these signals inside the block. One that was ignored stays ignored, as nohup(1) and shells have it."""
    before = {number: signal.getsignal(number) for number in numbers}
    for number, action in before.items():
        if action is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
