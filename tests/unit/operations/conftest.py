"""A stack that is up, as far as its files go, and reports of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.inventory import paths
from rackwright.inventory.reader import load

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a stack with an inventory in a state directory of the test's own."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    paths.prepare("lab")
    paths.inventory("lab").write_text(INVENTORY.read_text(encoding="utf-8"), encoding="utf-8")
    return "lab"


def report(verdict: str = "passed", started: str = "2026-11-21T10:00:00+00:00", **more: Any) -> str:
    """Return the text of a report without results, of the plan in the golden inventory."""
    head = {"schema": "rackwright.report/1", "stack": "lab", "plan": load(INVENTORY).plan, "level": "smoke", "started": started}
    return json.dumps({**head, "seconds": 1.0, "nodes": [], "checks": [], "not_run": [], "verdict": verdict, **more})


async def ignore_progress(*_: object) -> None:
    """Show nothing."""
