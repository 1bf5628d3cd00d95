"""A stack that is up, as commands read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.inventory.reader import load
from rackwright.inventory.running_stack import RunningStack

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


def test_running_stack_has_its_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("lab")
    paths.inventory("lab").write_text(INVENTORY.read_text(encoding="utf-8"), encoding="utf-8")
    running = RunningStack.of("lab")
    assert (running.name, running.inventory) == ("lab", load(INVENTORY))


def test_stack_without_inventory_is_not_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    with pytest.raises(InputError, match="is not up"):
        RunningStack.of("lab")
