"""Faked answers of etcd turn their check red and no other of its checks, with the release of the stack."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from faults.fault_table import faults
from support.faulty_node import FaultyNode
from support.verdicts import verdict_of

from rackwright.catalog.kubernetes import etcd
from rackwright.checks.cluster import test_etcd
from rackwright.checks.cluster.probes.control import ETCD
from rackwright.report.verdict import Verdict

RELEASE = "1.36.2"
CLUSTER = SimpleNamespace(scheduler=SimpleNamespace(version=RELEASE, controllers=["login0"]))
CHECKS = {f"etcd.{name.removeprefix('test_')}": check for name, check in vars(test_etcd).items() if name.startswith("test_")}
FAKED = [key for key in CHECKS if "fake_topic etcd" in faults()[key].apply]


def failed(node: FaultyNode) -> list[str]:
    """Return the checks that fail on what the node prints of etcd."""
    answer = ETCD.read(node.run(str(ETCD.command)))
    answers = {ETCD: lambda: answer}
    return [
        key for key, check in CHECKS.items() if verdict_of(check, answers, etcd=answer, cluster=CLUSTER, limit=80)[0] is not Verdict.PASSED
    ]


@pytest.mark.parametrize("key", FAKED)
def test_faked_answer_fails_only_its_check(key: str, tmp_path: Path) -> None:
    node = FaultyNode(tmp_path, {})
    node.change(f"NODE=login0 ETCD_RELEASE={etcd(RELEASE)}\n{faults()[key].apply}")
    assert failed(node) == [key]


def test_rows_of_etcd_are_faked() -> None:
    assert {"etcd.version_matches_release", "etcd.database_has_space", "etcd.no_alarms", "etcd.unauthenticated_clients_refused"} <= set(
        FAKED
    )
