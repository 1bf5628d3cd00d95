"""A newcomer runs the README's commands on a plain machine, meets trouble, and removes everything again.

The tests are the steps of one journey, in the order in which they stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from newcomer.journey import FIRST_UP_SECONDS, STACK, Journey
from newcomer.machine import ADMINISTRATOR

pytestmark = pytest.mark.newcomer


@pytest.fixture(scope="module")
def first_up(prepared: Journey) -> Journey:
    """A machine on which the first `make up` has ended with a passed verdict."""
    result = prepared.require("make up", FIRST_UP_SECONDS)
    assert f"{STACK}: passed" in result.output, result.end
    prepared.log(f"Podman: {prepared.describe_podman()}")
    return prepared


@pytest.fixture
def healthy(first_up: Journey, failed: Callable[[], bool]) -> Iterator[Journey]:
    """The journey, which each test leaves with a healthy cluster; repaired here only if the test failed before it could."""
    yield first_up
    if failed():
        first_up.use(f"pulumi up -s {STACK} --refresh --yes --skip-preview")


def test_first_up_records_passed_verdict(first_up: Journey) -> None:
    report = first_up.report()
    assert (report["verdict"], report["level"]) == ("passed", "smoke")
    assert {check["verdict"] for check in report["checks"]} <= {"passed", "skipped"}


def test_second_up_changes_nothing(first_up: Journey) -> None:
    output = first_up.require("make up").output
    assert "unchanged" in output and "created" not in output and "updated" not in output, output
    assert "no changes. " in output, output


def test_verify_passes(first_up: Journey) -> None:
    result = first_up.use(f"rackwright verify {STACK}")
    assert result.ok, result.end


def test_drift_is_clean(first_up: Journey) -> None:
    result, found = first_up.drift()
    assert (result.status, found["state"], found["differences"]) == (0, "clean", []), result.end


def test_user_runs_job_on_all_gpus(first_up: Journey) -> None:
    result = first_up.use(f"rackwright ssh {STACK} alice@login0 srun -N2 --gres=gpu:8 hostname")
    assert result.ok and {"worker0", "worker1"} <= set(result.output.split()), result.end


def test_stopped_worker_is_named_and_repaired(healthy: Journey) -> None:
    healthy.require(f"podman stop --time 3 {STACK}-worker1")
    assert ("resources", "worker1", "node.status") in healthy.differences()
    healthy.up("--refresh")


def test_changed_configuration_is_named_and_repaired(healthy: Journey) -> None:
    healthy.on_node("login0", "sed -i s/gpu:h100:8/gpu:h100:7/ /etc/slurm/slurm.conf")
    healthy.on_node("worker1", "systemctl stop slurmd")
    differences = healthy.differences()
    assert {("configuration", "login0"), ("configuration", "worker1")} <= {(layer, node) for layer, node, _ in differences}, differences
    healthy.up("--refresh")
    assert "gpu:h100:7" not in healthy.on_node("login0", "cat /etc/slurm/slurm.conf").output
    assert "active" in healthy.on_node("worker1", "systemctl is-active slurmd").output.split()


def test_gpu_fault_is_named_and_repaired(healthy: Journey) -> None:
    healthy.on_node("worker0", "rackwright-gpu-fault missing 3")
    differences = healthy.differences()
    healthy.on_node("worker0", "rackwright-gpu-fault clear")
    assert ("behaviour", "worker0", "gpu.count_matches_plan") in differences, differences
    healthy.up("--refresh")


def test_worker_is_added_and_removed(healthy: Journey) -> None:
    healthy.set_workers(3)
    healthy.up()
    assert "worker2 idle" in healthy.workers()
    healthy.set_workers(2)
    healthy.up()
    assert "worker2" not in healthy.workers()


def test_killed_worker_is_repaired(healthy: Journey) -> None:
    healthy.require(f"podman kill {STACK}-worker0")
    healthy.up("--refresh")
    assert "worker0 idle" in healthy.workers()


def test_up_repairs_lab_after_machine_reboot(healthy: Journey) -> None:
    healthy.log(f"{healthy.machine.reboot():7.0f} s  reboot of the machine")
    healthy.require("make up", FIRST_UP_SECONDS)
    result = healthy.use(f"rackwright verify {STACK}")
    assert result.ok, result.end


def test_down_leaves_nothing(first_up: Journey) -> None:
    first_up.require("make down")
    assert first_up.leftovers() == []
    assert first_up.run(f"test -e .rackwright/{STACK}/id_ed25519").status == 1
    status = first_up.machine.run(ADMINISTRATOR, "cd rackwright && git status --porcelain")
    assert (status.status, status.output) == (0, ""), status.end
