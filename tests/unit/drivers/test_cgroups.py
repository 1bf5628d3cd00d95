"""Hierarchies of control groups that all nodes would share, as the kernel and this machine's mounts tell them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rackwright.drivers import cgroups
from rackwright.drivers.cgroups import unmounted
from rackwright.provider.lab import node

KERNEL = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
MOUNTS = "30 20 0:9 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 20 0:10 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("cpu 1 9 1", []),
        ("cpu 1 9 1\nhugetlb 0 9 1", ["hugetlb"]),
        ("cpu 1 9 1\nhugetlb 11 9 1", ["hugetlb"]),  # somebody's, and not mounted here
        ("cpu 1 9 1\nrdma 0 1 0", []),  # the kernel was told to go without
        ("net_cls 0 1 1\nnet_prio 0 1 1\ncpu 1 9 1", ["net_cls,net_prio"]),
        ("net_cls 0 1 1\ncpu 1 9 1", ["net_cls"]),
    ],
)
def test_what_the_machine_has_not_mounted(rows: str, found: list[str]) -> None:
    assert unmounted(KERNEL + rows + "\n", MOUNTS) == found


@pytest.fixture
def hybrid(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with cgroup v1, where root runs the nodes, that has not mounted one of the hierarchies."""
    monkeypatch.setattr(node.cgroups, "is_cgroup_v2", lambda: False)
    monkeypatch.setattr(node, "rootless", lambda: False)
    monkeypatch.setattr(node.cgroups, "shared", lambda: ["hugetlb"])
    return monkeypatch


@pytest.mark.parametrize("nests", [True, False])
def test_nodes_are_kept_from_them_before_their_systemd_starts(hybrid: pytest.MonkeyPatch, nests: bool) -> None:
    first = node._init({"nests": nests})[-1]
    assert 0 < first.index(" /sys/fs/cgroup/hugetlb") < first.index("exec /sbin/init")


@pytest.mark.parametrize(("where", "name"), [(cgroups, "is_cgroup_v2"), (node, "rootless")])
def test_nodes_that_cannot_make_any_start_as_they_are(hybrid: pytest.MonkeyPatch, where: ModuleType, name: str) -> None:
    hybrid.setattr(where, name, lambda: True)
    assert node._init({}) == ["/sbin/init"]


class TestJobConstraints:
    """What Slurm in a lab's nodes can confine jobs to."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Callable[..., tuple[str, ...]]:
        """Return a function that judges a machine with these controllers, for root and for its ordinary user."""

        def judge(controllers: str, *, rootless: bool, cpus: int = 8) -> tuple[str, ...]:
            user = f"user.slice/user-{os.geteuid()}.slice/user@{os.geteuid()}.service" if rootless else ""
            folder = tmp_path / "sys/fs/cgroup" / user
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.controllers").write_text(controllers + "\n")
            return cgroups.job_constraints(rootless=rootless, declared_cpus=8, cpus=cpus, root=tmp_path)

        return judge

    @pytest.mark.parametrize(
        ("controllers", "rootless", "cpus", "found"),
        [
            ("cpuset cpu io memory hugetlb pids rdma misc", False, 8, ("cores", "memory", "devices")),
            ("cpuset cpu io memory hugetlb pids rdma misc", False, 2, ("memory", "devices")),
            ("cpu memory pids", True, 8, ("memory",)),
            ("cpuset cpu io memory pids", True, 16, ("cores", "memory")),
            ("cpu pids", True, 8, ()),
            ("", True, 8, ()),
        ],
    )
    def test_constraints_follow_the_controllers(
        self, machine: Callable[..., tuple[str, ...]], controllers: str, rootless: bool, cpus: int, found: tuple[str, ...]
    ) -> None:
        assert machine(controllers, rootless=rootless, cpus=cpus) == found

    def test_cores_are_those_that_this_process_may_use(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset memory\n")
        monkeypatch.setattr(os, "cpu_count", lambda: 64)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        assert "cores" not in cgroups.job_constraints(rootless=False, declared_cpus=8, root=tmp_path)
        assert "cores" in cgroups.job_constraints(rootless=False, declared_cpus=2, root=tmp_path)

    def test_cgroup_v1_confines_nothing(self, tmp_path: Path) -> None:
        assert cgroups.job_constraints(rootless=False, declared_cpus=1, root=tmp_path) == ()
