"""Tests of the stack files of this repository. They need no GPU, no cloud account and no container; `rackwright validate` runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STACKS = sorted(Path(__file__).resolve().parents[1].glob("stacks/Pulumi.*.yaml"))


@pytest.mark.parametrize("file", STACKS, ids=[file.name for file in STACKS])
def test_stack_has_plan(file: Path) -> None:
    """Add what your site requires of each stack, for example a rack for each node. Mark tests that need a GPU with `pytest.mark.gpu`."""
    command = [sys.executable, "-m", "rackwright.cli.main", "plan", str(file), "--json"]
    planned = subprocess.run(command, capture_output=True, text=True, check=False)
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["nodes"]
