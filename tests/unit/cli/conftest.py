"""`rackwright state` in this process, and a home for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli

from .homes import go_to


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`rackwright state` in this process."""
    for name in ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)

    def once(*arguments: str | Path) -> CliResult:
        return run_cli(monkeypatch, capsys, "state", *map(str, arguments))

    return once


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with stack `lab`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return go_to(tmp_path / "home", monkeypatch, "lab")
