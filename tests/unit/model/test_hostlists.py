"""Host lists with leading zeros, in both directions, and groups whose nodes have names of their own."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.model.hostlists import compressed, expand_host_list
from rackwright.plan import Slurm, expand
from rackwright.report.hardware.rows import fold
from rackwright.stackfile.load import load_cluster


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[001-003,007],gpu[1-2]", ("node001", "node002", "node003", "node007", "gpu1", "gpu2")),
        ("node[098-101]", ("node098", "node099", "node100", "node101")),
        ("n[8-11]", ("n8", "n9", "n10", "n11")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("gpu-[01-02]-ib", ("gpu-01-ib", "gpu-02-ib")),
        ("b1,a1", ("b1", "a1")),
    ],
)
def test_host_list_gives_names_in_their_order(text: str, names: tuple[str, ...]) -> None:
    assert expand_host_list(text) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["node001", "node002", "node003", "node007", "gpu1", "gpu2"], "node[001-003,007],gpu[1-2]"),
        (["node098", "node099", "node100", "node101"], "node[098-101]"),
        (["node099", "node100", "node1000"], "node[099-100],node1000"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n01", "n1", "n2"], "n01,n[1-2]"),
        (["r1n02", "r1n01", "r2n01"], "r1n[01-02],r2n01"),
        (["n00", "n0"], "n00,n0"),
    ],
)
def test_compressed_names_keep_leading_zeros(names: list[str], text: str) -> None:
    assert compressed(names) == text
    assert sorted(expand_host_list(text)) == sorted(names)


def test_report_rows_keep_leading_zeros() -> None:
    assert fold(["gpu1", "node009", "node010"]) == "gpu1, node[009-010]"


def described(**worker: Any) -> dict[str, Any]:
    """A lab of a login node and workers."""
    return {
        "target": {"kind": "lab"},
        "network": {"cidr": "10.77.0.0/24"},
        "access": {"port": 2222},
        "groups": {"login": {"count": 1}, "worker": {"count": 2, **worker}},
    }


def test_nodes_have_the_names_of_their_group() -> None:
    loaded = load_cluster(described(names="node[001-064]"))
    assert loaded.cluster is not None, loaded.findings
    plan = expand(loaded.cluster, "lab")
    assert [(node.name, node.index, str(node.address)) for node in plan.nodes if node.group == "worker"] == [
        ("node001", 0, "10.77.0.24"),
        ("node002", 1, "10.77.0.25"),
    ]
    assert isinstance(plan.scheduler, Slurm)
    assert plan.scheduler.partitions[0].nodes == ("node001", "node002")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("node[001-", "is not a host list"),
        ("node[3-1]", "is not a range"),
        ("node[,]", "is not a range"),
        ("node_[1-2]", "`node_1` is not a DNS label"),
        ("node[1-2],node2", "`node2` is listed twice"),
        (7, "is not a host list"),
    ],
)
def test_wrong_names_are_refused_where_they_stand(names: Any, says: str) -> None:
    (finding,) = load_cluster(described(names=names)).findings
    assert (finding.rule, finding.path) == ("node-names", "groups.worker.names")
    assert says in finding.cause and finding.hint
