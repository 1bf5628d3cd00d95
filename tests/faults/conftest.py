"""The lab that faults are set in: one made for the session, or a stack that is up (`--stack`), which they leave as they found it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from project import Project, clone
from starvation import skip_where_slow, skip_where_starved

from rackwright.catalog.checks import Level
from rackwright.handover import paths
from rackwright.report.declared import Declared, load

from . import score
from .rows import HELPERS, LOOK_AGAIN, variables

ROOT = Path(__file__).resolve().parents[2]
_COMMANDS = 240
"""Seconds for the commands of a fault: the longest give an API server 90 to come back, and CoreDNS 90 to hear of it (helpers.sh)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The stack to set faults in."""
    parser.addoption("--stack", default=None, help="a stack that is up and may be broken for minutes; without it, one is made and removed")


@dataclass(frozen=True)
class Lab:
    """A live stack that may be broken."""

    home: Path
    scratch: Path
    declared: Declared
    project: Project | None = None
    """The copy it was made of; nothing where somebody's stack is used."""

    def do(self, node: str, commands: str) -> None:
        """Run commands of a fault on a node."""
        known = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables(self.declared, node).items())
        command = ["ssh", "-F", str(self.home / "ssh_config"), node, "sh -s"]
        script = f"export PATH=/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin\n{known}{HELPERS}\n{commands}\n"
        ended = subprocess.run(command, input=script, capture_output=True, text=True, timeout=_COMMANDS, check=False)
        assert not ended.returncode, f"{node}: {commands}\n{ended.stdout}{ended.stderr}"

    def settle(self, nodes: Sequence[str]) -> None:
        """After a fault: slurmctld hears of every node (a silent one it asks again in its turn), and these look at themselves."""
        if self.declared.members("slurm"):
            self.do(self.declared.members("role_controller")[0], "nodes_settle")
        for node in nodes:
            self.do(node, LOOK_AGAIN)

    def look(self, level: Level) -> dict[str, dict[str, Any]]:
        """Results that are not green, by id. The report goes into a folder of its own: the stack's record is not touched."""
        where = {
            "--inventory": self.home / "inventory.yml",
            "--ssh-config": self.home / "ssh_config",
            "--results": self.scratch / "results",
        }
        words = [str(word) for pair in where.items() for word in pair]
        subprocess.run(
            [sys.executable, str(ROOT / "tests" / "cluster"), *words, "--level", level], capture_output=True, check=False, timeout=180
        )
        report = json.loads((self.scratch / "report.json").read_text(encoding="utf-8"))
        return {check["id"]: check for check in report["checks"] if check["verdict"] in ("failed", "unknown")}


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab like the stack that is asked for, green before the first fault; one at a time."""
    scratch = tmp_path_factory.mktemp("faults")
    stack = request.config.getoption("--stack")
    if stack:
        yield _opened(paths.folder(stack), scratch)
        return
    if shutil.which("podman") is None:
        pytest.fail("podman is not installed: faults are set in real nodes (`make doctor` names the command)")
    if request.param.startswith("lab-k8s") and os.geteuid() != 0:
        pytest.skip("a node of Kubernetes in the lab needs podman as root")
    project = clone(tmp_path_factory.mktemp("faults-lab") / "checkout", like=request.param)
    try:
        project.must("up", timeout=2400)
        if chosen() != "all":
            skip_where_slow(project)
        yield _opened(project.home / project.stack, scratch, project)
    finally:
        project.remove()
    assert project.leftovers() == []


def _opened(home: Path, scratch: Path, project: Project | None = None) -> Lab:
    lab = Lab(home, scratch, load(home / "inventory.yml"), project)
    wrong = lab.look(Level.SMOKE)
    assert not wrong, told(wrong.values())
    return lab


@pytest.fixture(scope="session")
def watched(lab: Lab) -> Lab:
    """The lab after looks that found nothing."""
    if lab.project is None:
        pytest.skip("drift is looked for in a lab of the tests' own: some of its nodes are deleted")
    for _ in range(2):
        assert drift(lab)["state"] == "clean"
    return lab


def drift(lab: Lab, *options: str) -> dict[str, Any]:
    """One look."""
    assert lab.project
    said = lab.project.rackwright("drift", lab.project.stack, "--json", *options)
    assert said.status in (0, 1, 3) and "{" in said.output, said.end
    found: dict[str, Any] = json.loads(said.output[said.output.index("{\n") :])
    return found


def told(checks: Sequence[dict[str, Any]] | Any) -> str:
    """Results as lines."""
    return "\n".join(f"{check['id']} {check['verdict']}: {check['reason']}" for check in checks)


def chosen() -> str:
    """`sample` (default), or `all`: those are set on a slow machine, too, where a miss says more than a row that was left out."""
    return os.environ.get("RACKWRIGHT_FAULTS", "sample")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of time-outs need a machine that keeps time."""
    if chosen() != "all":
        skip_where_starved(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The score, and each fault's time where all were set."""
    told = score.lines(terminalreporter.stats)
    if told:
        terminalreporter.section("faults")
        for line in [*(score.slowest_first(terminalreporter.stats) if chosen() == "all" else ()), *told]:
            terminalreporter.write_line(line)
