"""The rolling update of workers, as a function."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from rackwright.drift.host_baseline import baseline
from rackwright.drivers import ssh_connections
from rackwright.drivers.rolling_update import RollingUpdate, RollingUpdateResult, Say
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import rolling_update

from .conftest import ignore_progress


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch, lab: str) -> dict[str, str]:
    """Unreachable workers of the running stack `lab`; its roll updates all others and says so."""
    found: dict[str, str] = {}

    async def connect(*_: object, **__: Any) -> dict[str, str]:
        return found

    async def run(self: RollingUpdate, nodes: Sequence[str], say: Say, _: Say) -> RollingUpdateResult:
        await say(f"rolling {nodes[0]}")
        reasons = ["worker1: the roll stopped here"] if self.reboot else []
        return RollingUpdateResult(nodes=list(nodes), reasons=reasons)

    monkeypatch.setattr(ssh_connections, "connect_all", connect)
    monkeypatch.setattr(RollingUpdate, "run", run)
    return found


def test_roll_returns_workers_and_reports_batches(lost: dict[str, str]) -> None:
    said: list[str] = []

    async def say(text: str) -> None:
        said.append(text)

    done = rolling_update.update_workers("lab", ["worker1", "worker0", "worker1"], say, ignore_progress, reboot=False)
    assert done.chosen == done.resumed == ("worker1", "worker0")
    assert said == ["rolling worker1"]


def test_roll_without_names_updates_all_workers(lost: dict[str, str]) -> None:
    assert rolling_update.update_workers("lab", (), ignore_progress, ignore_progress, reboot=False).resumed == ("worker0", "worker1")


def test_roll_that_stopped_raises_its_reasons(lost: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = rolling_update.load_inventory("lab")
    inventory["all"]["vars"]["cluster"]["manage_kernel"] = True
    monkeypatch.setattr(rolling_update, "load_inventory", lambda stack: inventory)
    with pytest.raises(RackwrightError, match="worker1: the roll stopped here"):
        rolling_update.update_workers("lab", (), ignore_progress, ignore_progress, reboot=True)


@pytest.mark.parametrize("reboot", [False, True])
def test_next_scan_expects_the_reboots_of_a_roll(lost: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, reboot: bool) -> None:
    inventory = rolling_update.load_inventory("lab")
    inventory["all"]["vars"]["cluster"]["manage_kernel"] = True
    monkeypatch.setattr(rolling_update, "load_inventory", lambda stack: inventory)
    booted = {"node": {"life": "1", "boot": "aaaa", "booted": "1"}}
    baseline.write(baseline.Baseline("", {"worker0": booted, "worker1": booted}), paths.host_baseline("lab"))
    with contextlib.suppress(RackwrightError):
        rolling_update.update_workers("lab", ["worker0"], ignore_progress, ignore_progress, reboot=reboot)
    expected = {"node": {"life": "1"}} if reboot else booted
    assert baseline.read(paths.host_baseline("lab")).nodes == {"worker0": expected, "worker1": booted}


def test_roll_with_unreachable_worker_is_undetermined(lost: dict[str, str]) -> None:
    lost["worker1"] = "no route"
    with pytest.raises(UndeterminedError, match="aborted before any change: some nodes are unreachable\nworker1: no route"):
        rolling_update.update_workers("lab", (), ignore_progress, ignore_progress, reboot=False)


def test_roll_refuses_unknown_worker(lost: dict[str, str]) -> None:
    with pytest.raises(InputError, match="--nodes: unknown worker `login0`"):
        rolling_update.update_workers("lab", ["login0"], ignore_progress, ignore_progress, reboot=False)
