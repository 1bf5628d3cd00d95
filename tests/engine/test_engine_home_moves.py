"""State that leaves its home, by `rackwright state`: the real engine reads it, secrets and all, in another home and on another backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Project

pytestmark = pytest.mark.engine

INFRA = Path(__file__).resolve().parents[2] / "infra"

SECRET = "import pulumi\npulumi.export('word', pulumi.Output.secret('hush'))\n"


def rackwright_state(project: Project, *arguments: str | Path, **environ: str) -> Any:
    """`rackwright state` for the project's home; what it prints."""
    command = [sys.executable, "-m", "rackwright.cli.main", "state", *map(str, arguments), "--json"]
    environ = {**project.environ, "PYTHONPATH": str(INFRA), **environ}
    done = subprocess.run(command, env=environ, cwd=project.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def word(project: Project, **environ: str) -> str:
    """The stack's secret output."""
    return project.pulumi("stack", "output", "-s", "lab", "--show-secrets", "word", **environ).strip()


def test_state_is_read_in_another_home_and_on_another_backend(project: Project, tmp_path: Path) -> None:
    project.program(SECRET)
    project.commit()
    project.pulumi("up", "-s", "lab", "--yes", "--skip-preview")
    there = {"RACKWRIGHT_HOME": str(tmp_path / "there")}

    assert rackwright_state(project, "backup", tmp_path / "b")["stacks"][0]["state"] is True
    rackwright_state(project, "restore", tmp_path / "b", **there)
    project.home.rename(tmp_path / "lost")
    assert word(project, **there) == "hush"

    backend = {"PULUMI_BACKEND_URL": f"file://{tmp_path}/backend"}
    (tmp_path / "backend").mkdir()
    for already in (False, True):
        assert rackwright_state(project, "migrate", backend["PULUMI_BACKEND_URL"], **there)["stacks"] == [
            {"stack": "lab", "already": already}
        ]
    (tmp_path / "there/.engine/state").rename(tmp_path / "gone")
    assert word(project, **there, **backend) == "hush"
    told = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview", **there, **backend)
    assert "1 unchanged" in told and "created" not in told
    assert project.changes() == ""
