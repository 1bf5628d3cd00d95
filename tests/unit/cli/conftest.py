"""`rackwright state` in this process, and a home for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rackwright.cli import main

from .homes import Ended, Run, go_to


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`rackwright state` in this process."""
    for name in ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)

    def once(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["rackwright", "state", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.app()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0 if code is None else 1, *capsys.readouterr())

    return once


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with stack `lab`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return go_to(tmp_path / "home", monkeypatch, "lab")
