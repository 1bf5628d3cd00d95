"""Probe of the time in which a small write is on the node's disk, and of what the disk completes meanwhile.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext

_FOLDER: Final = "/var/tmp"
"""Its files survive a reboot (FHS 3.0, 5.15): it is on the node's disk, where /tmp may be in memory."""
_WRITES: Final = 10
_SECONDS: Final = 3.0
"""A disk that is slower than 0.3 s gets fewer writes."""
BUSY_REQUESTS: Final = 50
BUSY_MEGABYTES: Final = 20
"""What a disk completes each second that is busy, not slow. Red Hat requires 50 sequential synchronous writes a second for etcd on the
least machine (OpenShift, Scalability and performance, Recommended etcd practices); a magnetic disk writes 100 to 250 MB/s."""


@dataclass(frozen=True)
class DiskLatency:
    """How long synchronous writes took, and what the disk completed for all processes meanwhile."""

    file_system: str
    """Type of the file system."""
    seconds: tuple[float, ...]
    """Of each write of 4 KiB, until the disk had it. The last one may be unfinished."""
    requests: float | None
    """Per second. None: the file system has no disk, or not one of this node."""
    megabytes: float | None
    """Per second, of 10**6 bytes. None as above."""

    @property
    def median_ms(self) -> float:
        """Return the median of the writes, in milliseconds."""
        return 1000 * statistics.median(self.seconds)

    @property
    def is_busy(self) -> bool | None:
        """Return whether the disk completes more than a slow one can; None if that was not counted."""
        if self.requests is None or self.megabytes is None:
            return None
        return self.requests >= BUSY_REQUESTS or self.megabytes >= BUSY_MEGABYTES

    @property
    def work(self) -> str:
        """Return what the disk completed, in words; rounded down, so that a number below the limit is not shown as the limit."""
        if self.requests is None or self.megabytes is None:
            return "unknown"
        return f"{int(self.requests)} requests and {int(self.megabytes * 10) / 10} MB per second"

    def __str__(self) -> str:
        """Return how long a write took, in words."""
        number = f"{self.median_ms:.1f}" if self.median_ms < 10 else f"{self.median_ms:.0f}"
        return f"{number} ms for a write to {_FOLDER} ({self.file_system})"


def parse_disk_latency(text: str) -> DiskLatency:
    """Return the measurement in the answer of `rackwright.remote.programs.disk_latency`.

    >>> text = '{"file_system": "ext4", "seconds": [0.002, 0.001], "unfinished": null, "disk": null}'
    >>> parse_disk_latency(text).median_ms
    1.5
    """
    answer: dict[str, Any] = json.loads(text)
    unfinished = answer["unfinished"]
    seconds = tuple(float(one) for one in (*answer["seconds"], *(() if unfinished is None else (unfinished,))))
    if not seconds or min(seconds) < 0:
        raise ValueError("no write was measured")
    file_system, disk = str(answer["file_system"]), answer["disk"]
    if disk is None:
        return DiskLatency(file_system, seconds, None, None)
    took = float(disk["seconds"])
    return DiskLatency(file_system, seconds, int(disk["requests"]) / took, int(disk["bytes"]) / took / 1e6)


def _command(_context: ProbeContext) -> str:
    from rackwright.remote.command import python_command  # the health check on a node has no such module, and no such question

    return python_command("disk_latency", {"folder": _FOLDER, "writes": _WRITES, "seconds": _SECONDS})


DISK_LATENCY = Probe("disk-latency", on="nodes", command=_command, parse=parse_disk_latency)
"""Needs 3 s at most, of the 8 s that a command has, on a slow disk."""
