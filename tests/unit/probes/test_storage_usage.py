"""Space and inodes of shared file systems: what df would say, and the verdict."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_storage
from rackwright.checks.cluster.probes.storage import MOUNTS
from rackwright.checks.cluster.probes.storage_usage import USAGE
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ONE = SimpleNamespace(kind="moosefs", mount="/mnt/data", folder="", servers=["storage0"], clients=["worker0"], mode="1777", size_mib=1000)
MOUNTED = "29 1 259:2 / / rw - ext4 /dev/sda1 rw\n66 29 0:52 / /mnt/data rw shared:3 - fuse.mfs mfs#storage0:9421 rw\n"


@pytest.mark.parametrize(
    ("line", "verdict", "words"),
    [
        ("/mnt/data|1000|500|500|1000|500", PASSED, ""),
        ("/mnt/data|1000|50|50|1000|500", PASSED, ""),
        ("/mnt/data|1000|49|49|1000|500", FAILED, "95 % of space used"),
        ("/mnt/data|1000|0|0|1000|500", FAILED, "100 % of space used"),
        # Blocks that only root may use are no space of users: df says 100 %.
        ("/mnt/data|1000|50|0|1000|500", FAILED, "100 % of space used"),
        ("/mnt/data|1000|500|500|1000|10", FAILED, "99 % of inodes used"),
        ("/mnt/data|1000|10|10|1000|10", FAILED, "99 % of space used, 99 % of inodes used"),
        ("/mnt/data|1000|500|500|0|0", PASSED, ""),
        # A quota can be lowered below what is used.
        ("/mnt/data|1000|0|0|100|0", FAILED, "100 % of space used, 100 % of inodes used"),
        ("/mnt/data|0|0|0|0|0", UNKNOWN, ""),
        ("/mnt/data|", UNKNOWN, ""),
        ("/mnt/data|1000|500|500|unknown|1", UNKNOWN, ""),
        ("/mnt/other|1000|500|500|1000|500", UNKNOWN, ""),
    ],
)
def test_usage_has_verdict(line: str, verdict: Verdict, words: str) -> None:
    given = {"node": SimpleNamespace(name="worker0"), "cluster": SimpleNamespace(storage=[ONE]), "limit": 95}
    found, reason = verdict_of(test_storage.test_space_available, answers_of({MOUNTS: MOUNTED, USAGE: f"{line}\n"}), **given)
    assert found is verdict and words in reason, reason


def test_usage_of_a_missing_mount_is_unknown() -> None:
    given = {"node": SimpleNamespace(name="worker0"), "cluster": SimpleNamespace(storage=[ONE]), "limit": 95}
    answers = answers_of({MOUNTS: MOUNTED.splitlines()[0] + "\n", USAGE: "/mnt/data|1000|500|500|1000|500\n"})
    assert verdict_of(test_storage.test_space_available, answers, **given)[0] is UNKNOWN
