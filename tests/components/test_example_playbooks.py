"""Ansible accepts the playbooks of the examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("playbook", sorted(EXAMPLES.rglob("*.yml")), ids=lambda file: file.name)
def test_site_playbooks_have_valid_syntax(playbook, tmp_path):
    inventory = tmp_path / "inventory"
    inventory.write_text("login0\n")
    command = [sys.executable, "-m", "ansible", "playbook", "--inventory", str(inventory), "--syntax-check", str(playbook)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
