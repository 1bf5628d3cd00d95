"""Outputs of commands on the nodes that are not UTF-8: a login message, a file name or a journal in Latin-1."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import systemd
from ansible_collections.rackwright.cluster.plugins.module_utils.slowness import run_patiently
from rackwright.checks.acceptance.harness.submitter import Submitter

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ansible_collections", "infra/rackwright/checks", "infra/rackwright/remote", "roles")
"""Code that reads outputs of the nodes."""
FILES = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")) if file.name != "jobs_image.py"]
"""Without jobs_image: its digest is the tag of the image that it builds, and it reads the names of files that it chose."""


def strict_calls(text: str) -> Iterator[int]:
    """Yield the lines of calls that decode the output of a command, and fail for a byte that is no UTF-8."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen", "subprocess.check_output"):
            given = {keyword.arg for keyword in node.keywords}
            if given & {"text", "encoding", "universal_newlines"} and "errors" not in given:
                yield node.lineno


def test_command_output_of_any_bytes_is_read() -> None:
    texts = ((file, file.read_text(encoding="utf-8")) for file in FILES)
    found = [f"{file.relative_to(ROOT)}:{line}" for file, text in texts if "subprocess" in text for line in strict_calls(text)]
    assert not found, "these calls end with UnicodeDecodeError if the output has a byte that is no UTF-8: state errors="


def test_byte_that_is_no_text_is_replaced() -> None:
    done = run_patiently(["printf", r"gr\374n\n"], 30, {**os.environ, "LC_ALL": "C"})
    assert done.stdout == "gr\N{REPLACEMENT CHARACTER}n\n"


def program(folder: Path, name: str, *lines: str) -> None:
    """Write a shell script."""
    script = folder / name
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    script.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs that are found first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_login_message_does_not_end_the_session(tools: Path) -> None:
    program(tools, "ssh", r"printf 'Zugang nur f\374r Benutzer\n' | tee /dev/stderr", """read line; echo '{"done": 1}'; read line""")
    declared: Any = SimpleNamespace(needs_sudo=lambda node: False)
    with Submitter(declared, tools / "config", "login0", "user", "slurm_jobs") as session:
        assert session.ask({}) == {"done": 1}


def test_journal_that_cannot_be_read_is_said(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools, "journalctl", r"printf 'kein Ger\344t\n'")
    assert systemd.Systemd().journal_tail("a.service") == "kein Ger\N{REPLACEMENT CHARACTER}t"
    program(tools, "journalctl", "exec sleep 60")
    monkeypatch.setattr(systemd, "LONGEST_TAIL", 0.1)
    assert "timed out" in systemd.Systemd().journal_tail("a.service")
