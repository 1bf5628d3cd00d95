"""A node that booted again is named by one scan, unless rackwright rebooted it, or its boots mean nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.drift.difference import Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.host_baseline.boots import expect_reboots
from rackwright.inventory import paths
from rackwright.operations.drift import host_baseline
from rackwright.operations.drift.host_baseline import BaselineStates
from rackwright.remote.programs import host_baseline as program

FIRST, SECOND = {"boot": "aaaa", "booted": "1795946400"}, {"boot": "bbbb", "booted": "1795950000"}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give the stack a state directory of its own."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("rack")


def scan(boot: dict[str, str] | None, life: str = "1", *, update: bool = False) -> DriftReport:
    """Scan a worker that was booted so, beside a node that stays as it is; None: the facts of the worker were not read."""
    worker = {} if boot is None else {"node": {"life": life, "swap": "none", **boot}}
    states = {"worker0": worker, "worker1": {"node": {"life": "2", **FIRST}}}
    found = DriftReport("rack", "plan", datetime(2026, 11, 27, tzinfo=UTC), 1.0, tuple(LayerScan(layer, 1.0) for layer in Layer))
    return host_baseline.compare_with_baseline(found, BaselineStates(states, ()), (), update=update)


def named(report: DriftReport) -> list[tuple[str, str]]:
    return [(one.node, one.subject) for one in report.differences]


REBOOT = [("worker0", "baseline.node boot")]


def test_reboot_is_named_by_one_scan() -> None:
    assert named(scan(FIRST)) == []
    found = scan(SECOND)
    assert named(found) == REBOOT and found.state is State.DRIFTED
    (reboot,) = found.differences
    assert reboot.declared == "the boot of 2026-11-29 10:00 UTC"
    assert reboot.live == "booted again, at 2026-11-29 11:00 UTC"
    assert named(scan(SECOND)) == []


def test_reboot_is_named_once_the_node_can_be_read_again() -> None:
    scan(FIRST)
    assert named(scan(None)) == []
    assert named(scan(SECOND)) == REBOOT


def test_clock_that_was_stepped_is_no_reboot() -> None:
    scan(FIRST)
    assert named(scan({**FIRST, "booted": "1795950000"})) == []


def test_reboot_by_rackwright_is_not_named() -> None:
    scan(FIRST)
    expect_reboots(paths.host_baseline("rack"), ["worker0", "worker7"])
    assert named(scan(SECOND)) == []
    assert named(scan(FIRST)) == REBOOT, "the boot after an expected one is compared again"


def test_expected_reboot_of_another_node_hides_none() -> None:
    scan(FIRST)
    expect_reboots(paths.host_baseline("rack"), ["worker1"])
    assert named(scan(SECOND)) == REBOOT


def test_reboot_by_an_up_that_changed_the_stack_is_not_named() -> None:
    scan(FIRST)
    paths.applied("rack").write_text("{}")
    assert named(scan(SECOND)) == []


def test_updated_baseline_has_the_new_boot() -> None:
    scan(FIRST)
    assert named(scan(SECOND, update=True)) == []
    assert named(scan(SECOND)) == []


def test_machine_id_that_changed_hides_no_reboot() -> None:
    scan(FIRST)
    scan(SECOND, life="another")
    assert named(scan(SECOND)) == REBOOT


def test_baseline_of_an_earlier_release_names_no_reboot() -> None:
    scan({})
    assert named(scan(SECOND)) == []
    assert named(scan(FIRST)) == REBOOT


@pytest.mark.parametrize(
    ("target", "saving", "counts"),
    [("hosts", (), True), ("vm", (), True), ("lab", (), False), ("aws", ("worker0",), False), ("aws", ("worker1",), True)],
)
def test_boots_of_containers_and_of_nodes_with_power_saving_mean_nothing(target: str, saving: tuple[str, ...], counts: bool) -> None:
    limits = {"idle_s": 60, "suspend_timeout_s": 60, "resume_timeout_s": 60}
    scheduler = {"controllers": ["login0"], "power_saving": {"nodes": list(saving), **limits} if saving else None}
    declared: Any = SimpleNamespace(target=target, cluster={"scheduler": scheduler})
    assert host_baseline._are_boots_ignored(declared, "worker0") is not counts


def test_boot_is_read_from_the_kernel() -> None:
    found = program.node()
    assert len(found["boot"]) == 36 and int(found["booted"]) > 1_000_000_000
