"""SIGTERM and SIGHUP, which end a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rackwright.signals import handled

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Service managers and CI systems send the first one (systemd.kill(5)), a closed terminal the second one (tty_ioctl(4))."""


@contextmanager
def end_like_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C inside the block, so that the command undoes or records what it began.

    Only the first one counts: often several arrive, and a second Ctrl-C would end the cleanup.
    """
    shown = [stream.fileno() for stream in (sys.__stdout__, sys.__stderr__) if stream is not None and stream.isatty()]
    received = False

    def interrupt(number: int, _: FrameType | None) -> None:
        nonlocal received
        if number == signal.SIGHUP:
            _discard_output(shown)
        if received:
            return
        received = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # A shell starts background commands of a script so.
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    with handled(_SIGNALS, interrupt):
        yield


def _discard_output(descriptors: list[int]) -> None:
    """Let writes to a terminal that is gone succeed: the error would end the cleanup at its first message."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in descriptors:
            os.dup2(nowhere.fileno(), descriptor)
