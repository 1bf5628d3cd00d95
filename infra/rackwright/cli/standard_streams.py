"""Standard output and standard error whose reader ends before the command does, as in `rackwright plan lab | head -1`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rackwright.errors import OUTPUT_LOST
from rackwright.files import is_pipe


class PipeWriter(io.FileIO):
    """Write end of a pipe or socket. From the first write that its reader refuses, all output is discarded."""

    lost = False

    def write(self, data: Any) -> int:
        """Write bytes and return their number, also if there is no reader."""
        try:
            return super().write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.lost = True
            # Processes that start later inherit the descriptor, and must not end by SIGPIPE either.
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            return memoryview(data).nbytes


@contextmanager
def outlive_readers() -> Iterator[PipeWriter | None]:
    """Make a closed reader no error inside the block. Yield standard output if it is a pipe, to be queried for `lost` at the end.

    A command that changes a cluster must not end half-way because its messages have no reader.
    """
    before = sys.stdout, sys.stderr
    (sys.stdout, pipe), (sys.stderr, _) = map(_outliving, before)
    ours = sys.stdout, sys.stderr
    try:
        yield pipe
    finally:
        for stream in ours:
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def end_if_unread() -> None:
    """Exit with 141 if standard output has no reader any more. For commands that only show something and have no end of their own."""
    pipe = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(pipe, PipeWriter):
        sys.stdout.flush()
        if pipe.lost:
            raise SystemExit(OUTPUT_LOST)


def _outliving(stream: Any) -> tuple[Any, PipeWriter | None]:
    """Return the stream to write to, and its pipe if it is one. Tests replace the streams by objects without a descriptor."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return stream, None
    if not is_pipe(descriptor):
        return stream, None
    pipe = PipeWriter(descriptor, "wb", closefd=False)
    lines = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(pipe), encoding=stream.encoding, errors=stream.errors, line_buffering=lines), pipe
