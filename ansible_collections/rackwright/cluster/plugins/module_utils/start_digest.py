"""Record the digest of a unit's files at its start, for comparison with the current files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple


class Digests(NamedTuple):
    """Digest of a unit's configuration and of the unit file with its drop-ins."""

    config: str
    unit: str


def files_under(paths: list[str]) -> Iterator[str]:
    """Yield each path, a directory followed by its files."""
    for path in paths:
        yield path
        if os.path.isdir(path):
            for folder, below, names in os.walk(path):
                below.sort()
                yield from (os.path.join(folder, name) for name in sorted(names))


def changed_at(path: str) -> float:
    """Return the modification time in seconds since the epoch; 0 if the path is missing."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def digest(paths: list[str]) -> str:
    """Return the SHA-256 of names and contents; missing files are included as missing."""
    whole = hashlib.sha256()
    for path in files_under(paths):
        whole.update(path.encode() + b"\0")
        try:
            with open(path, "rb") as stream:
                whole.update(hashlib.sha256(stream.read()).digest())
        except OSError:
            whole.update(b"no file")
    return whole.hexdigest()


def read_stamp(folder: str, name: str) -> dict[str, Any]:
    """Return the stamp of the unit's last start; empty if missing or unreadable."""
    try:
        with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as stream:
            stamp = json.load(stream)
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(folder: str, name: str, invocation: str, digests: Digests) -> None:
    """Record the digests of this start of the unit, in a memory file system, because a boot restarts all units."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{name}.json")
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        json.dump({"invocation": invocation, **digests._asdict()}, stream)
    os.replace(f"{path}.new", path)


def remove_stamp(folder: str, name: str) -> None:
    """Delete the stamp."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f"{name}.json"))
