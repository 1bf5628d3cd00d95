"""`rackwright runner`: what it calls, what it prints, and that no option takes a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.operations import runner as operations


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return the command line in this process."""

    def once(*arguments: str) -> CliResult:
        return run_cli(monkeypatch, capsys, *arguments)

    return once


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the calls of the operations, which do nothing."""
    found: list[tuple[Any, ...]] = []
    for name in ("register", "remove"):
        monkeypatch.setattr(operations, name, lambda stack, file, progress, name=name: found.append((name, stack, file)) or ("runner0",))
    return found


def test_register_names_runners_and_next_command(run: Run, calls: list[tuple[Any, ...]]) -> None:
    ended = run("runner", "ci", "register", "--token-file", "/etc/token")
    assert (ended.code, ended.out) == (0, "stack ci: registered runner0\n  run `rackwright verify ci` to check them\n")
    assert calls == [("register", "ci", Path("/etc/token"))]


def test_remove_names_next_step(run: Run, calls: list[tuple[Any, ...]]) -> None:
    ended = run("runner", "ci", "remove")
    assert ended.out.startswith("stack ci: removed the runners of runner0\n") and "rackwright down ci" in ended.out
    assert calls == [("remove", "ci", None)]


def test_token_is_no_argument(run: Run, calls: list[tuple[Any, ...]]) -> None:
    """Every user of this machine can read arguments."""
    assert run("runner", "ci", "register", "--token", "AAEXAMPLE").code == 2
    assert run("runner", "ci", "register", "AAEXAMPLE").code == 2
    assert calls == []
