"""A machine id that was changed or emptied is named, and hides nothing else that differs on its node."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rackwright.drift.difference import Layer, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.drift.host_baseline import baseline
from rackwright.inventory import paths
from rackwright.operations.drift import host_baseline
from rackwright.operations.drift.host_baseline import BaselineStates
from rackwright.remote.programs import host_baseline as program

OLD, NEW = "0" * 32, "1" * 32


def kinds(life: str | None, owner: str = "0:0") -> dict[str, dict[str, str]]:
    """Return a node's state; None: its facts could not be read."""
    read = {} if life is None else {"node": {"life": life, "swap": "none"}}
    return {"directories": {"/opt": f"0755 {owner}"}, **read}


def compared(now: dict[str, dict[str, str]]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the live values of the differences by subject, and the baseline after the scan."""
    file = paths.host_baseline("lab")
    baseline.write(baseline.Baseline("", {"worker0": kinds(OLD)}), file)
    scan = DriftReport("lab", "plan", datetime(2026, 11, 27, tzinfo=UTC), 1.0, (LayerScan(Layer.BEHAVIOUR, 1.0),))
    found = host_baseline.compare_with_baseline(scan, BaselineStates({"worker0": now}, ()), (), update=False)
    return {one.subject: one.live for one in found.differences}, json.loads(file.read_text(encoding="utf-8"))["nodes"]["worker0"]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give the stack a state directory of its own."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("lab")


@pytest.mark.parametrize(("life", "shown"), [(NEW, "11111111…"), ("", "nothing")], ids=["another", "empty"])
def test_changed_machine_id_is_named_beside_other_differences(life: str, shown: str) -> None:
    assert compared(kinds(life, "1:0"))[0] == {"baseline.directories /opt": "0755 1:0", "baseline.node machine-id": shown}


@pytest.mark.parametrize("life", [NEW, "", None], ids=["another", "empty", "unread"])
def test_state_with_another_machine_id_is_no_baseline(life: str | None) -> None:
    assert compared(kinds(life))[1] == kinds(OLD)


def test_unread_machine_id_hides_no_difference() -> None:
    assert compared(kinds(None, "1:0"))[0] == {"baseline.directories /opt": "0755 1:0"}


def test_node_of_another_up_gets_a_baseline() -> None:
    saved = baseline.Baseline("before", {"worker0": kinds(OLD)})
    assert saved.renewed("after", {"worker0": kinds(NEW)}, {"worker0"}, set()).nodes["worker0"] == kinds(NEW)


@pytest.mark.parametrize(("text", "life"), [(f"{OLD}\n", OLD), ("", ""), (None, "")], ids=["set", "empty", "missing"])
def test_machine_id_is_read(monkeypatch: pytest.MonkeyPatch, text: str | None, life: str) -> None:
    real = program.lines
    monkeypatch.setattr(program.os.path, "exists", lambda _: text is not None)
    monkeypatch.setattr(program, "lines", lambda path: (text or "").splitlines() if path == "/etc/machine-id" else real(path))
    assert program.node()["life"] == life
