"""Detection of drift as a function: what it returns, what it reports at once, and the reconciliation between two scans."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import History
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack
from rackwright.model.drift import DriftPolicy
from rackwright.operations.drift import detection, publication, reconcile, scan
from rackwright.operations.drift.detection import Detection, detect, detect_and_reconcile
from rackwright.operations.drift.host_baseline import BaselineStates

from .conftest import ignore_progress

STOPPED = DriftItem(Layer.BEHAVIOUR, "worker0", "munge.service_runs", "active", "inactive", Category.BREAKING, "start it")
BEGAN = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


class Night:
    """The scans of a stack, and the order of scans, messages and runs of Pulumi."""

    def __init__(self) -> None:
        self.found: list[tuple[DriftItem, ...]] = []
        self.events: list[str] = []
        self.succeeds = True

    async def scan(self, running: RunningStack, progress: object, *, with_baseline: bool) -> tuple[DriftReport, BaselineStates]:
        self.events.append("scan")
        scans = (LayerScan(Layer.RESOURCES, 1.0), LayerScan(Layer.CONFIGURATION, 1.0), LayerScan(Layer.BEHAVIOUR, 1.0, self.found.pop(0)))
        return DriftReport(running.name, "0" * 12, BEGAN.replace(minute=len(self.events)), 2.0, scans), BaselineStates()

    def run(self, stack: str, way: reconcile.PulumiRun) -> bool:
        self.events.append("pulumi")
        return self.succeeds

    def say(self, text: str) -> None:
        self.events.append(text.split("\n")[0])


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch, lab: str) -> Night:
    found = Night()
    monkeypatch.setattr(scan, "scan", found.scan)
    monkeypatch.setattr(reconcile, "run", found.run)
    return found


def check(night: Night, *layers: Layer, **more: Any) -> Detection:
    if layers:
        return detect_and_reconcile("lab", layers, ignore_progress, night.say, **more)
    return detect("lab", ignore_progress, night.say, **more)


def test_scan_is_returned_recorded_and_written(night: Night) -> None:
    night.found = [(STOPPED,)]
    found = check(night)
    assert (found.report.state, found.changes.new, found.exit_code) == (State.DRIFTED, (STOPPED,), 1)
    assert [one.difference for one in History(paths.drift_history("lab")).differences()] == [STOPPED]
    assert all(file("lab").is_file() for file in (paths.drift, paths.drift_junit, paths.drift_page))
    (trace,) = [json.loads(line) for line in paths.traces("lab").read_text(encoding="utf-8").splitlines()]
    names = [span["name"] for span in trace["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert names == ["drift", "scan resources", "scan configuration", "scan behaviour"]


def test_failures_to_notify_are_reported(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "policy", lambda file: DriftPolicy(textfile_directory="/no/such/folder"))
    monkeypatch.setattr(publication, "send", lambda message, policy: ["mail notification failed: no route"])
    night.found = [(STOPPED,)]
    check(night)
    metrics = "/no/such/folder/rackwright-lab.prom: cannot write the metrics: No such file or directory"
    assert night.events[0] == "scan" and night.events[1].startswith(metrics)
    assert night.events[2:] == ["mail notification failed: no route"]


def test_failure_to_publish_is_said_and_changes_no_state(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(declared: Inventory, found: DriftReport) -> list[str]:
        assert (declared.stack, found.state) == ("lab", State.CLEAN)
        return ["login0: no response over SSH"]

    monkeypatch.setattr(detection, "publish_drift", fail)
    night.found = [()]
    assert check(night).exit_code == 0
    assert night.events == ["scan", "login0: no response over SSH"]


def test_plan_is_reported_before_reconciliation(night: Night) -> None:
    night.found = [(STOPPED,), ()]
    found = check(night, Layer.BEHAVIOUR)
    assert (found.reconciled, found.report.state, found.exit_code) == (True, State.CLEAN, 0)
    assert [event.split(":")[0] for event in night.events] == ["scan", "reconciling the hosts", "pulumi", "scan"]


def test_failed_reconciliation_is_not_as_declared(night: Night) -> None:
    night.found, night.succeeds = [(STOPPED,), ()], False
    found = check(night, Layer.BEHAVIOUR)
    assert (found.reconciled, found.report.state, found.exit_code) == (False, State.CLEAN, 1)
    assert night.events[-2:] == ["stack lab: some differences remain; errors above, differences below", "scan"]


def test_nothing_is_reconciled_in_layers_without_difference(night: Night) -> None:
    night.found = [(STOPPED,)]
    found = check(night, Layer.RESOURCES)
    assert (found.reconciled, found.exit_code) == (None, 1)
    assert night.events == ["scan", "nothing to reconcile in resources"]


def test_baseline_that_is_off_cannot_be_updated(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "policy", lambda file: DriftPolicy(host_baseline=False))
    with pytest.raises(InputError, match="--update-baseline: no baseline to replace"):
        check(night, update_baseline=True)
    assert night.events == []


def test_interrupted_scan_is_undetermined(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(detection.scan, "scan", interrupt)
    with pytest.raises(UndeterminedError, match="interrupted: some layers were not scanned"):
        check(night)
    assert not paths.drift("lab").exists()
