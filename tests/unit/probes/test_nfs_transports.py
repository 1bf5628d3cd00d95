"""Transports of NFS mounts, as the kernel reports them in mountstats."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_storage
from rackwright.checks.cluster.probes.storage import TRANSPORTS
from rackwright.report.verdict import Verdict

GOOD = (Path(__file__).parents[1] / "captured" / "nfs-transports" / "good.txt").read_text(encoding="utf-8")


def verdict(text, node="worker0", **changes):
    one = {"kind": "nfs", "mount": "/mnt/data", "servers": ["storage0"], "clients": ["worker0", "storage0"], "rdma": False, "nconnect": 2}
    cluster = SimpleNamespace(storage=[SimpleNamespace(**{**one, **changes})])
    return verdict_of(
        test_storage.test_nfs_transport_matches_plan, answers_of({TRANSPORTS: text}), node=SimpleNamespace(name=node), cluster=cluster
    )


RDMA = GOOD.replace("proto=tcp", "proto=rdma").replace("xprt:\ttcp", "xprt:\trdma")


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        (GOOD, {}, Verdict.PASSED),
        (GOOD, {"nconnect": 1}, Verdict.PASSED),
        (GOOD, {"nconnect": 8}, Verdict.FAILED),
        (RDMA, {"rdma": True, "nconnect": None}, Verdict.PASSED),
        (GOOD, {"rdma": True, "nconnect": None}, Verdict.FAILED),
        (RDMA, {}, Verdict.FAILED),
        (GOOD.replace("proto=tcp", "proto=rdma"), {"rdma": True, "nconnect": None}, Verdict.FAILED),
        (GOOD.replace("/mnt/data", "/mnt/other"), {}, Verdict.UNKNOWN),
        (GOOD.replace("\txprt:", "\tother:"), {}, Verdict.UNKNOWN),
        ("", {}, Verdict.UNKNOWN),
    ],
)
def test_transport_is_what_the_kernel_uses(text, changes, expected):
    assert verdict(text, **changes)[0] is expected


def test_server_has_the_folder_itself():
    assert verdict("device /dev/vda mounted on / with fstype ext4\n", node="storage0")[0] is Verdict.PASSED
