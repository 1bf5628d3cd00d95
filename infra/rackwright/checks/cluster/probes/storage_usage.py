"""Probe of the space and inodes that shared file systems have left."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, read_each_line
from rackwright.checks.cluster.probes.storage import mounts_of


@dataclass(frozen=True)
class Usage:
    """What of a file system is in use, in percent."""

    space: float
    """Of what users may use, as df(1) computes it."""
    inodes: float | None
    """None for a file system that creates inodes as it needs them, such as Btrfs."""


def parse_usage(text: str) -> Lines[Usage]:
    """Return usage by path from lines `path|blocks|free blocks|blocks for users|inodes|free inodes`.

    >>> parse_usage("/mnt/a|1000|100|50|0|0\\n")["/mnt/a"].space
    94.73684210526316
    """
    found = read_each_line(text, _usage)
    if not found:
        raise ValueError("no usage is listed")
    return found


def _usage(line: str) -> tuple[str, Usage]:
    path, *numbers = line.split("|")
    blocks, free, available, inodes, free_inodes = map(int, numbers)
    if not path.startswith("/") or blocks <= 0 or blocks - free + available <= 0:
        raise ValueError("no usage of a file system")
    return path, Usage(100 * (blocks - free) / (blocks - free + available), 100 * (inodes - free_inodes) / inodes if inodes else None)


def _command(context: ProbeContext) -> str:
    return f"for m in {' '.join(mounts_of(context))}; do echo $m'|'$(stat -f -c '%b|%f|%a|%c|%d' $m); done"


USAGE = Probe("storage-usage", on="storage_client", command=_command, parse=parse_usage)
