"""Files and pipes that other processes read while they are written."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


def is_pipe(descriptor: int) -> bool:
    """Return whether a file descriptor is open and leads to a reader that can close it: a pipe or a socket."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def write_atomic(path: Path, data: str | bytes, mode: int | None = None) -> None:
    """Write a temporary file beside path and rename it, so that readers see the old or the new content, never a part of it.

    Text is written as UTF-8. `mode` is the file's mode whatever the umask is; without one the umask decides, and an existing file's mode
    is not kept. A failed write leaves path as it was and raises OSError. The data is not synced: after a power failure the file system
    decides which content is there.
    """
    content = data.encode() if isinstance(data, str) else data
    # Two threads, or a process whose pid was used before, must not share a temporary file: O_EXCL and a random part of the name.
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    # The file is private until it has its mode, so that nobody else can open it in between.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
