"""Nodes that a phase leaves out: the table, and the failures that it is asked with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.rows import each_row

from ansible_collections.rackwright.cluster.plugins.plugin_utils.failed_nodes import FailedNodes
from ansible_collections.rackwright.cluster.plugins.plugin_utils.prerequisites import PREREQUISITES, not_reached

SLURM = {
    "slurm": ["login0", "worker0", "worker1"],
    "role_controller": ["login0"],
    "role_accounting": ["login0"],
    "role_worker": ["worker0", "worker1"],
    "role_login": ["login0"],
}
TWO = {**SLURM, "slurm": ["ctl0", "ctl1", "db0", "login0", "worker0"], "role_controller": ["ctl0", "ctl1"], "role_accounting": ["db0"]}
KUBERNETES = {
    "kubernetes": ["ctl0", "ctl1", "worker0"],
    "kube_control_plane": ["ctl0", "ctl1"],
    "kubernetes_login": ["login0"],
    "role_controller": ["ctl0", "ctl1"],
}
MOOSEFS = {"name": "home", "kind": "moosefs", "servers": ["storage0", "storage1"], "clients": ["login0", "worker0"]}
NFS = {"name": "data", "kind": "nfs", "servers": ["storage1"], "clients": ["worker0", "storage1"]}
LUSTRE = {"name": "scratch", "kind": "fsx-lustre", "servers": [], "clients": ["worker0"]}


def failed(*names: str) -> dict[str, str]:
    return {name: f"{name} failed in bootstrap" for name in names}


@each_row(
    ("phase", "groups", "storage", "down", "left_out"),
    [
        pytest.param("scheduler", SLURM, [], ["login0"], ["worker0", "worker1"], id="only-controller"),
        pytest.param("scheduler", SLURM, [], ["worker0"], [], id="worker"),
        pytest.param("scheduler", SLURM, [], ["storage0"], [], id="no-member-of-slurm"),
        pytest.param("scheduler", TWO, [], ["ctl0"], [], id="one-of-two-controllers"),
        pytest.param("scheduler", TWO, [], ["ctl0", "ctl1"], ["db0", "login0", "worker0"], id="both-controllers"),
        pytest.param("scheduler", TWO, [], ["db0"], ["ctl0", "ctl1", "login0", "worker0"], id="database"),
        pytest.param("kubernetes", KUBERNETES, [], ["ctl1"], [], id="one-of-two-control-planes"),
        pytest.param("kubernetes", KUBERNETES, [], ["ctl0", "ctl1"], ["login0", "worker0"], id="control-plane"),
        pytest.param("storage", SLURM, [MOOSEFS], ["storage0"], ["login0", "worker0"], id="moosefs-master"),
        pytest.param("storage", SLURM, [MOOSEFS], ["storage1"], [], id="moosefs-chunkserver"),
        pytest.param("storage", SLURM, [NFS], ["storage1"], ["worker0"], id="nfs-server"),
        pytest.param("storage", SLURM, [MOOSEFS, NFS, LUSTRE], ["worker0"], [], id="client"),
        pytest.param("gpu", SLURM, [MOOSEFS], ["login0", "storage0"], [], id="phase-without-prerequisites"),
        pytest.param("scheduler", KUBERNETES, [], ["ctl0", "ctl1"], [], id="stack-without-slurm"),
        pytest.param("kubernetes", SLURM, [], ["login0"], [], id="stack-without-kubernetes"),
    ],
)
def test_phase_leaves_out_nodes_that_need_failed_ones(
    phase: str, groups: dict[str, list[str]], storage: Sequence[object], down: Sequence[str], left_out: Sequence[str]
) -> None:
    assert sorted(not_reached(phase, groups, {"storage": storage}, failed(*down))) == left_out


def test_cause_is_the_failure_and_not_the_node_between() -> None:
    found = not_reached("scheduler", TWO, {}, failed("db0"))
    assert set(found.values()) == {"db0 failed in bootstrap"}


def test_cause_names_each_of_several_nodes() -> None:
    found = not_reached("kubernetes", KUBERNETES, {}, {"ctl0": "ctl0 is unreachable", "ctl1": "ctl1 failed in gpu"})
    assert found["worker0"] == "ctl0 is unreachable and ctl1 failed in gpu"


def test_every_row_is_of_a_phase() -> None:
    assert {row.phase for row in PREREQUISITES} == {"storage", "scheduler", "kubernetes"}


class Play:
    """A play as Ansible has it, as far as it is read."""

    def __init__(self, file: str, *removed: str) -> None:
        self.file, self._removed_hosts = file, list(removed)

    def get_path(self) -> str:
        return f"/p/playbooks/{self.file}.yml:7"


def test_node_failed_in_the_first_play_that_removed_it() -> None:
    nodes = FailedNodes()
    for play in (Play("bootstrap"), Play("bootstrap", "login0"), Play("gpu", "login0", "worker1"), Play("scheduler", "login0", "worker1")):
        nodes.begin_play(play)
        if play.file == "gpu":
            nodes.add_unreachable("worker1")
    assert nodes.all(lost=["storage0"]) == {
        "storage0": "storage0 is unreachable",
        "login0": "login0 failed in bootstrap",
        "worker1": "worker1 was unreachable in gpu",
    }


def test_node_that_was_left_out_passes_its_cause_on() -> None:
    nodes = FailedNodes()
    nodes.begin_play(Play("scheduler", "worker0"))
    nodes.not_reached["worker0"] = "login0 failed in bootstrap"
    assert nodes.all() == {"worker0": "login0 failed in bootstrap"}
