"""The nightly scan that a timer starts."""

from __future__ import annotations

import sys
from datetime import time
from pathlib import Path

import pytest

from rackwright import layout
from rackwright.inventory import paths
from rackwright.operations.drift.systemd_timer import nightly_scan


def test_nightly_scan_uses_program_of_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RACKWRIGHT_HOME", raising=False)
    found = nightly_scan("lab", time(4, 30), 60)
    assert found.program == str(Path(sys.executable).parent / "rackwright")
    assert (found.page, found.at, found.jitter_s, found.environment) == (str(paths.drift_page("lab")), time(4, 30), 60, {})


def test_nightly_scan_finds_state_directory_and_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path)
    assert nightly_scan("lab").environment == {"RACKWRIGHT_HOME": str(tmp_path / "home"), layout.PROJECT_ENV: str(tmp_path)}
