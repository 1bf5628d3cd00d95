"""Programs of these tests live in a home of their own: what is up on this machine is none of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
