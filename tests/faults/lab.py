"""A live stack that receives faults: a fault makes exactly its check fail, and after its removal all checks pass again."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.project import Project

from rackwright.catalog.checks import Level
from rackwright.drivers.check_runner import environment, python_module
from rackwright.inventory.reader import Inventory, load

from .fault_table import HELPERS, LOOK_AGAIN, Fault, variables

_COMMANDS = 900
"""Seconds after which commands of a fault count as hung: the longest allow an API server 90 to return, and CoreDNS 90 (helpers.sh)."""


@dataclass(frozen=True)
class Lab:
    """A live stack that may be broken."""

    home: Path
    scratch: Path
    declared: Inventory
    project: Project | None = None
    """The copy that created the stack; None for an existing stack."""

    def do(self, node: str, commands: str) -> None:
        """Run commands of a fault on a node."""
        known = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables(self.declared, node).items())
        command = ["ssh", "-F", str(self.home / "ssh_config"), node, "sh -s"]
        script = f"export PATH=/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin\n{known}{HELPERS}\n{commands}\n"
        ended = subprocess.run(command, input=script, capture_output=True, text=True, timeout=_COMMANDS, check=False)
        assert not ended.returncode, f"{node}: {commands}\n{ended.stdout}{ended.stderr}"

    def settle(self, nodes: Sequence[str]) -> None:
        """Register every node with slurmctld again, which queries an unreachable one only in its turn, and run the nodes' health checks."""
        if self.declared.members("slurm"):
            self.do(self.declared.members("role_controller")[0], "wait_for_nodes")
        for node in nodes:
            self.do(node, LOOK_AGAIN)

    def look(self, level: Level) -> dict[str, dict[str, Any]]:
        """Return failed and unknown results, by id. The report goes into a folder of its own: the stack's record stays as it is."""
        where = {
            "--inventory": self.home / "inventory.yml",
            "--ssh-config": self.home / "ssh_config",
            "--results": self.scratch / "results",
        }
        words = [str(word) for pair in where.items() for word in pair]
        subprocess.run(
            [*python_module("cluster"), *words, "--level", level], capture_output=True, check=False, timeout=_COMMANDS, env=environment()
        )
        report = json.loads((self.scratch / "report.json").read_text(encoding="utf-8"))
        return {check["id"]: check for check in report["checks"] if check["verdict"] in ("failed", "unknown")}

    def turns_red_by(self, fault: Fault) -> float:
        """Inject the fault and remove it; return the seconds until its check, and no check outside the row, failed."""
        places, done, key = fault.nodes(self.declared), list[str](), fault.spec.key
        try:
            for node in places:
                done.append(node)
                self.do(node, fault.apply)
            began = time.monotonic()
            found = self.look(fault.level)
            seconds = time.monotonic() - began
        finally:
            for node in done:
                self.do(node, fault.undo)
            self.settle(done)
        failed = {id_ for id_, check in found.items() if check["verdict"] == "failed"}
        assert {id_ for id_ in failed if id_.split("[")[0] == key} == fault.must_turn_red(self.declared), format_results(found.values())
        others = {id_: check for id_, check in found.items() if id_.split("[")[0] not in {key, *fault.may_turn_red}}
        assert not others, f"{key} also turned red:\n{format_results(others.values())}"
        healed = self.look(fault.level)
        assert not healed, f"{key} was taken back, and yet:\n{format_results(healed.values())}"
        return seconds


def open_lab(home: Path, scratch: Path, project: Project | None = None) -> Lab:
    """Return the stack of an inventory's folder, with all checks passed before the first fault."""
    lab = Lab(home, scratch, load(home / "inventory.yml"), project)
    wrong = lab.look(Level.SMOKE)
    assert not wrong, format_results(wrong.values())
    return lab


def format_results(checks: Sequence[dict[str, Any]] | Any) -> str:
    """Return results as lines."""
    return "\n".join(f"{check['id']} {check['verdict']}: {check['reason']}" for check in checks)
