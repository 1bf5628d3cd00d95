"""A slow disk: distinguished from a fast one, from one that is busy, and from one whose work is not counted."""

from __future__ import annotations

import json
from types import SimpleNamespace

from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.probes.disk_latency import DISK_LATENCY, parse_disk_latency
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
LIMIT = 100


def answer(*seconds: float, unfinished: float | None = None, disk: tuple[int, int] | None = (30, 200_000), kind: str = "ext4") -> str:
    """Return the answer of a node: seconds of each write, and requests and bytes of the disk in 2 s."""
    counted = {"requests": disk[0], "bytes": disk[1], "seconds": 2.0} if disk else None
    return json.dumps({"file_system": kind, "seconds": seconds, "unfinished": unfinished, "disk": counted})


ANSWERS = {
    "nvme": (answer(*[0.0002] * 10), 1, PASSED, ""),
    "magnetic": (answer(0.034, *[0.0083] * 9), 1, PASSED, ""),
    "one-stall": (answer(1.9, *[0.002] * 9), 1, PASSED, ""),
    "at-the-limit": (answer(0.1), 1, PASSED, ""),
    "slow": (answer(0.4, 0.42, 0.41), 1, FAILED, "410 ms for a write to /var/tmp (ext4); the disk completed 15 requests and 0.1 MB"),
    "slow-on-an-emulated-processor": (answer(0.4, 0.42, 0.41), 8, PASSED, ""),
    "hangs": (answer(unfinished=3.0, disk=(0, 0)), 1, FAILED, "3000 ms"),
    "hangs-after-a-fast-write": (answer(0.001, unfinished=2.9, disk=(2, 8192)), 1, FAILED, "1450 ms"),
    "one-late-write-of-many": (answer(*[0.001] * 9, unfinished=2.9), 1, PASSED, ""),
    "busy-with-requests": (answer(0.4, 0.42, 0.41, disk=(100, 400_000)), 1, PASSED, ""),
    "busy-with-large-files": (answer(0.4, 0.42, 0.41, disk=(80, 40_000_000)), 1, PASSED, ""),
    "not-quite-busy": (answer(0.4, 0.42, 0.41, disk=(99, 39_000_000)), 1, FAILED, "the disk completed 49 requests and 19.5 MB per second"),
    "slow-root-over-nfs": (answer(0.4, 0.42, disk=None, kind="nfs4"), 1, UNKNOWN, "counts no requests"),
    "in-memory": (answer(0.00001, disk=None, kind="tmpfs"), 1, PASSED, ""),
    "nothing-measured": (answer(), 1, UNKNOWN, "no write was measured"),
    "clock-that-runs-back": (answer(-0.1), 1, UNKNOWN, "no write was measured"),
    "words": ('{"file_system": "ext4", "seconds": ["fast"], "unfinished": null, "disk": null}', 1, UNKNOWN, "unreadable answer"),
    "no-time-between-counters": (json.dumps(json.loads(answer(0.4)) | {"disk": {"requests": 1, "bytes": 1, "seconds": 0}}), 1, UNKNOWN, ""),
    "full-disk": ("", 1, UNKNOWN, ""),
}  # fmt: skip


@each_row("case", ANSWERS)
def test_disk_is_judged_by_its_writes_and_its_work(case):
    text, factor, expected, said = ANSWERS[case]
    node, speeds = SimpleNamespace(name="worker0"), SimpleNamespace(processor_factor=lambda _node: factor)
    answers = answers_of({DISK_LATENCY: text})
    found, why = verdict_of(test_node.test_disk_responds_in_time, answers, node=node, slow_nodes=speeds, limit=LIMIT)
    assert (found, said in why) == (expected, True), why


SHOWN = {"fast": (0.00016, "0.2 ms"), "below-ten": (0.00834, "8.3 ms"), "slow": (0.4104, "410 ms")}


@each_row("case", SHOWN)
def test_measurement_is_shown_with_its_file_system(case):
    seconds, shown = SHOWN[case]
    assert str(parse_disk_latency(answer(seconds))) == f"{shown} for a write to /var/tmp (ext4)"
