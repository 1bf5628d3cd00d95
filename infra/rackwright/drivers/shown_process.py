"""Programs whose output the user sees, and which the end of its reader does not end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from rackwright.errors import OUTPUT_LOST
from rackwright.files import is_pipe
from rackwright.signals import handled

STDOUT: Final = 1
STDERR: Final = 2
"""File descriptors (stdio(3))."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED: Final = tuple(128 + number for number in _ENDING)
"""Exit statuses of a shell's command that one of these signals ended (bash(1), EXIT STATUS); `pulumi` of this environment has them, too."""
_RELAY: Final = ("sh", "-c", f"trap '' PIPE; cat 2>/dev/null || {{ cat >/dev/null; exit {OUTPUT_LOST}; }}")
"""Copies its input, and goes on reading after its own reader has closed. Its exit status is then OUTPUT_LOST."""
_DRAINING: Final = 5.0
"""Seconds that the relay gets for the last output. It lives on if a slow reader (`| less`) needs longer."""


@dataclass(frozen=True, slots=True)
class ShownProcess:
    """A program that has ended."""

    status: int
    is_output_lost: bool
    """The reader of its output closed before the last byte."""
    was_interrupted: bool = False


def run_shown(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: int | None = None, to: int = STDOUT
) -> ShownProcess:
    """Run a program with its output on `to` (STDOUT, STDERR) and its errors on standard error of this process.

    The program cancels its own work when it is interrupted, and this function returns when it has done so.

    Where the outputs are pipes, a relay stands between. Without it, the end of `| head` ends Pulumi 3.259.0 by SIGPIPE in the middle of
    its work, as seen. The relay has a session of its own: Ctrl-C must not end it before Pulumi has cancelled its work.
    """
    interruption = _Interruption()
    with _relay(to) as out, _relay(STDERR, beside=(to, out)) as err, handled(_ENDING, interruption.receive):
        stdout = out.stdin if out else None if to == STDOUT else to
        child = subprocess.Popen(command, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=err.stdin if err else None)
        interruption.attach(child)
        status = child.wait()
    interrupted = interruption.received is not None or status in _INTERRUPTED
    return ShownProcess(status, out is not None and out.returncode == OUTPUT_LOST, interrupted)


class _Interruption:
    """Ctrl-C, SIGTERM and SIGHUP while a program runs that ends by itself. subprocess.run would kill it a quarter of a second after Ctrl-C.

    The first one is passed on as SIGTERM, since it may have reached this process alone. If it reached the process group, the program takes
    both for one.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def attach(self, child: subprocess.Popen[bytes]) -> None:
        """Name the program; a signal that came before is passed on now."""
        self._child = child
        if self.received is not None:
            child.terminate()

    def receive(self, number: int, _: FrameType | None) -> None:
        """Note a signal, and pass the first one on."""
        if self.received is None and self._child is not None:
            self._child.terminate()
        self.received = self.received or number


@contextmanager
def _relay(descriptor: int, beside: tuple[int, subprocess.Popen[bytes] | None] | None = None) -> Iterator[subprocess.Popen[bytes] | None]:
    """Yield a relay to a pipe, the one `beside` if that goes to the same pipe, or None where the descriptor is no pipe."""
    if not is_pipe(descriptor):
        yield None
        return
    if beside is not None and os.path.sameopenfile(descriptor, beside[0]):
        yield beside[1]
        return
    relay = subprocess.Popen(_RELAY, stdin=subprocess.PIPE, stdout=descriptor, start_new_session=True)
    try:
        yield relay
    finally:
        assert relay.stdin is not None
        relay.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            relay.wait(_DRAINING)
