"""What a person types wrong, or a machine refuses, is not reported as a bug."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import run_cli

from rackwright.inventory import paths


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plann", "lab"], "No such command 'plann'. Did you mean 'plan'?"),
        (["demo", "lab", "x"], "Invalid value for 'kind': 'x' is not one of 'train', 'finetune', 'serve'."),
        (["verify", "lab", "--level", "x"], "Invalid value for '--level': 'x' is not one of 'checks', 'smoke', 'full'."),
        (["plan", "/tmp"], "/tmp: is a folder\n  pass the path of a stack file"),
        (["plan", "/dev/null"], "/dev/null: is not a regular file\n  pass the path of a stack file"),
        (["plan", "x" * 300], "…: the name has 300 characters (expected at most 200)"),
        (["plan", f"{'x' * 300}.yaml"], "…: the name has 305 characters (expected at most 200)"),
        (["up", "labb"], "stacks/Pulumi.labb.yaml: unknown stack `labb`\n  did you mean `lab`?"),
    ],
)
def test_mistake_is_named(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    found = run_cli(monkeypatch, capsys, *arguments)
    assert (found.code, found.out) == (2, "")
    assert message in found.err


def test_full_disk_is_no_bug() -> None:
    environment = {**os.environ, "PYTHONPATH": str(paths.project_root() / "infra")}
    environment.pop("RACKWRIGHT_TRACEBACK", None)
    command = [sys.executable, "-m", "rackwright.cli.main", "plan", "lab"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert ended.returncode == 3
    assert ended.stderr.startswith("standard output: No space left on device\n  check free space")
    assert "bug" not in ended.stderr and len(ended.stderr.splitlines()) == 2
