"""The table of faults and its score, without a lab."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from faults import score
from faults.fault_table import faults
from support.rows import each_row

from rackwright.catalog.checks import Feature

OF_KUBERNETES = {"addons", "vip", "containerd", "control_plane", "etcd", "kubelet", "kubernetes", "namespaces", "podnetwork", "pods"}


@each_row("key", [key for key in faults() if key.partition(".")[0] in OF_KUBERNETES])
def test_kubernetes_faults_need_a_kubernetes_stack(key: str) -> None:
    assert faults()[key].stack.startswith("lab-k8s")


@pytest.mark.parametrize(
    ("part", "stack"), [(Feature.QUEUES, "lab-k8s-addons"), (Feature.VXLAN, "lab-k8s-flannel"), (Feature.QUOTAS, "lab-k8s")]
)
def test_faults_need_a_stack_with_their_part(part: Feature, stack: str) -> None:
    rows = [fault for fault in faults().values() if part in fault.spec.needs]
    assert rows and {fault.stack for fault in rows} == {stack}


def report(name: str, *, seconds: float | None = None, skipped: str = "") -> Any:
    return SimpleNamespace(
        nodeid=f"tests/faults/test_faults.py::test_x[{name}]",
        when="call",
        user_properties=[] if seconds is None else [(score.SECONDS, seconds)],
        longrepr=("file", 1, f"Skipped: {skipped}"),
    )


def test_score_lists_missed_and_unset_faults() -> None:
    reports = {
        "passed": [report("a", seconds=2.0), report("b", seconds=4.0)],
        "failed": [report("c")],
        "skipped": [report("d", skipped="this stack has no nfs")],
    }
    assert score.lines(reports) == [
        "faults: 2 of 3 named by the right subject on the right node",
        "time to detection: median 3.0 s, longest 4.0 s (b)",
        "not seen: tests/faults/test_faults.py::test_x[c]",
        "not set here: d (this stack has no nfs)",
    ]


def test_failed_or_unclean_lab_counts_as_miss() -> None:
    reports = {"passed": [report("a", seconds=2.0), report("b", seconds=4.0)], "error": [report("b"), report("c")]}
    assert score.lines(reports) == [
        "faults: 1 of 3 named by the right subject on the right node",
        "time to detection: median 2.0 s, longest 2.0 s (a)",
        "not seen: tests/faults/test_faults.py::test_x[b]",
        "not seen: tests/faults/test_faults.py::test_x[c]",
    ]


def test_run_without_faults_has_no_score() -> None:
    assert score.lines({"skipped": [report("d", skipped="no podman")]}) == []
