"""A lab's inventory whose shared file system is a folder here, and the stand-in for the node that submits its jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.hang import HANG_SECONDS

from rackwright.report.schemas import schema_errors
from rackwright.yaml_loader import load_yaml

from .standin import Standin

PROJECT = Path(__file__).parents[3]
GOLDEN = PROJECT / "tests" / "golden" / "inventory" / "inventory.yml"


@dataclass
class RunResult:
    """Result of a run."""

    status: int
    said: str
    report: dict[str, Any]

    def verdicts(self, phase: str) -> dict[str, str]:
        """Return verdict by check id, of one phase."""
        return {check["id"].partition(".")[2]: check["verdict"] for check in self.report["checks"] if check["subject"] == phase}

    def phase(self, name: str) -> dict[str, Any]:
        """Return the result of a phase."""
        return next(phase for phase in self.report["phases"] if phase["name"] == name)


class Bench:
    """A stack's folder beside the stand-in."""

    package_root = PROJECT / "infra"
    """The folder that holds the package `rackwright`."""

    def __init__(self, folder: Path) -> None:
        self.node = Standin(folder / "node")
        self.home = folder / "home" / "lab"
        self.home.mkdir(parents=True)
        handed_over = GOLDEN.read_text()
        (self.home / "inventory.yml").write_text(handed_over.replace("/mnt/sharedfs", str(self.node.mount)))
        cluster = load_yaml(handed_over)["all"]["vars"]["cluster"]
        self.node.answer("size", f"{cluster['storage'][0]['size_mib'] * 256} 4096\n")
        (self.home / "ssh_config").write_text("")

    def command(self, *more: str) -> list[str]:
        """Return the command line of a run; no node that is at work becomes idle meanwhile, so the run does not wait for one."""
        where = ["--settle", "0", "--inventory", str(self.home / "inventory.yml"), "--ssh-config", str(self.home / "ssh_config")]
        return [sys.executable, "-P", "-m", "rackwright.checks.acceptance", *where, *more]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a run."""
        return self.node.environment | {"PYTHONPATH": str(self.package_root)}

    def run(self, *more: str) -> RunResult:
        """Run to the end; the report satisfies its contract."""
        ended = subprocess.run(self.command(*more), capture_output=True, text=True, timeout=HANG_SECONDS, check=False, env=self.environment)
        file = self.home / ("acceptance.partial.json" if {"--phase", "--bisect"} & set(more) else "acceptance.json")
        report = json.loads(file.read_text()) if file.exists() else {}
        assert not report or schema_errors("acceptance", report) == []
        return RunResult(ended.returncode, ended.stderr, report)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Yield a bench with everything as planned."""
    made = Bench(tmp_path)
    yield made
    made.node.end_processes()
