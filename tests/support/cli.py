"""Run a command of rackwright in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rackwright.cli import main


@dataclass(frozen=True)
class CliResult:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., CliResult]
"""`run("verify", "lab")`: the fixture of most tests of commands."""


def run_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> CliResult:
    """Run `rackwright` with these arguments. A message instead of an exit code counts as 1, as for the shell."""
    monkeypatch.setattr(sys, "argv", ["rackwright", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main.app()
    code = ended.value.code
    return CliResult(code if isinstance(code, int) else 0 if code is None else 1, *capsys.readouterr())
