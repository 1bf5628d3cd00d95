"""A state directory for these tests: stacks that are up on this machine are not visible."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty one. The control sockets of ssh have a folder of their own, too."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    run = tmp_path_factory.getbasetemp() / "run"
    run.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    return tmp_path / "home"
