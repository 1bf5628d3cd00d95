"""A folder with one stack file, for the tests of its readers."""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = """\
config:
  rackwright:cluster:
    target: {kind: lab}
    network: {cidr: 10.77.0.0/24}
    groups:
      login: {count: 1, roles: [login, controller, accounting]}
      worker: {count: 2, gpus: {model: h100, count: 8}}
"""


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    """A folder with one stack file."""
    (tmp_path / "Pulumi.lab.yaml").write_text(LAB)
    return tmp_path
