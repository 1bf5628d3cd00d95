"""An incomplete scan is attributed to a suspended daemon only if a check reports one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import History
from rackwright.inventory import paths
from rackwright.operations.drift import host_baseline
from rackwright.operations.drift.host_baseline import BaselineStates

HELD = (("worker0", "not compared completely, because munge.service is frozen on worker1"),)
CONFIGURED = DriftItem(Layer.CONFIGURATION, "worker0", "base.Write", "as declared", "changed", Category.BENIGN, "")


def report(live: str = "", incomplete: tuple[tuple[str, str], ...] = HELD, changed: tuple[DriftItem, ...] = ()) -> DriftReport:
    """Return a scan whose check of munged found this; empty: nothing."""
    found = (DriftItem(Layer.BEHAVIOUR, "worker1", "munge.service_runs", "active", live, Category.BREAKING, ""),) if live else ()
    layers = (
        LayerScan(Layer.RESOURCES, 1.0),
        LayerScan(Layer.CONFIGURATION, 1.0, changed, incomplete=incomplete),
        LayerScan(Layer.BEHAVIOUR, 1.0, found),
    )
    return DriftReport("lab", "plan", datetime(2026, 11, 27, tzinfo=UTC), 3.0, layers)


@pytest.mark.parametrize("live", ["suspended by a signal, starts with the node", "suspended by a debugger", "etcd: frozen"])
def test_reported_daemon_explains_an_incomplete_scan(live):
    assert report(live).with_incomplete_named().state is State.DRIFTED


@pytest.mark.parametrize("live", ["", "inactive, starts with the node"])
def test_incomplete_scan_without_reported_daemon_is_unknown(live):
    found = report(live).with_incomplete_named()
    assert found.state is State.UNKNOWN
    assert found.unknown == ((Layer.CONFIGURATION, *HELD[0]),)


@pytest.mark.parametrize(("incomplete", "healed"), [(HELD, ()), ((), (CONFIGURED,))])
def test_node_that_was_not_compared_resolves_nothing(tmp_path, incomplete, healed):
    history = History(tmp_path / "history.sqlite")
    history.record(report(changed=(CONFIGURED,), incomplete=()))
    later = replace(report("frozen", incomplete=incomplete), started=datetime(2026, 11, 28, tzinfo=UTC))
    assert history.record(later).resolved == healed


@pytest.mark.parametrize(
    ("live", "why", "state"),
    [
        ("frozen", "cannot read keys: TimeoutError: no answer within 5 s", State.DRIFTED),
        ("frozen", "cannot read keys: PermissionError: no", State.UNKNOWN),
        ("inactive", "cannot read keys: TimeoutError: no answer within 5 s", State.UNKNOWN),
    ],
)
def test_home_that_does_not_respond_follows_from_a_suspended_server(monkeypatch, tmp_path, live, why, state):
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("lab")
    states = BaselineStates({"worker0": {"node": {"life": "a"}}}, (("worker0", why),))
    found = host_baseline.compare_with_baseline(report(live, incomplete=()), states, (), update=False)
    assert found.state is state
