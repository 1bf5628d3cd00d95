"""`python -m cis STACK`: compare CIS items on the nodes of a Kubernetes stack that is up with the tracked list of deviations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cis.evaluation import Finding, NodeFacts, evaluate
from cis.items import ALL_NODES, CONTROL_PLANE, FileRule, Table, ValueRule, read_table
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack

_PROGRAM: Final = Path(__file__).parent / "programs/read_node.py"
_KUBELET_FILES: Final = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf.d/*.conf")
"""kubeadm's file, and the drop-ins that are laid over it in the order of their names."""
_PATIENCE: Final = 120
"""Seconds for one node. Chosen: the program reads /proc and a few files."""


def main(arguments: Sequence[str]) -> int:
    """Print the report. Exit code: 0 all items are as listed, 1 a difference, 2 usage, 3 a node does not answer."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        table, findings = read_table(), []
        groups = _groups(arguments[0])
        for node in groups[ALL_NODES]:
            facts = read_node(paths.ssh_config(arguments[0]), node, table)
            findings += [evaluate(item, node, facts) for item in table.items if node in groups[item.group]]
    except RackwrightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(render(table, findings), end="")
    return 1 if any(finding.is_difference for finding in findings) or not findings else 0


def _groups(stack: str) -> dict[str, Sequence[str]]:
    """Return the nodes by group. Raises InputError if the stack is not up or does not run Kubernetes."""
    inventory = RunningStack.of(stack).inventory
    if not inventory.groups.get(CONTROL_PLANE):
        raise InputError(
            "has no control plane of Kubernetes", path=f"stack {stack}", hint="name a stack with `scheduler: {kind: kubernetes}`"
        )
    return {group: inventory.members(group) for group in (ALL_NODES, CONTROL_PLANE)}


def read_node(ssh_config: Path, node: str, table: Table) -> NodeFacts:
    """Return what a node reports. Raises UndeterminedError if it does not."""
    rules = [item.rule for item in table.items]
    order = {
        "daemons": sorted({rule.daemon for rule in rules if isinstance(rule, ValueRule)}),
        "files": sorted({rule.pattern for rule in rules if isinstance(rule, FileRule)}),
        "texts": _KUBELET_FILES,
    }
    program = _PROGRAM.read_text(encoding="utf-8")
    command = ["ssh", "-F", str(ssh_config), "-o", "BatchMode=yes", node, f"python3 -c {_quoted(program)}"]
    try:
        ended = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=False, timeout=_PATIENCE)
        found = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        raise UndeterminedError(f"no answer within {_PATIENCE} s", path=node) from None
    except ValueError:
        raise UndeterminedError(f"exit status {ended.returncode}: {ended.stderr.strip()[-500:]}", path=node) from None
    return NodeFacts(
        found["arguments"], {key: [(r[0], r[1], r[2], r[3]) for r in rows] for key, rows in found["files"].items()}, found["texts"]
    )


def _quoted(program: str) -> str:
    return "'" + program.replace("'", "'\\''") + "'"


def render(table: Table, findings: Sequence[Finding]) -> str:
    """Return the report: differences first, then the deviations with their reasons, then what was not evaluated."""
    differing = [finding for finding in findings if finding.is_difference]
    deviating = {finding.item.number: finding for finding in findings if finding.item.deviates and not finding.is_difference}
    held = len({finding.item.number for finding in findings}) - len({finding.item.number for finding in differing} | set(deviating))
    lines = [
        f"CIS Kubernetes Benchmark {table.benchmark}: {held} items hold, {len(deviating)} deviate as listed, {len(differing)} differences"
    ]
    lines += _section("differences", (_difference(finding) for finding in differing))
    lines += _section("deviations", (f"{number:7} {one.item.deviates}" for number, one in deviating.items()))
    lines += _section("decided by the product's own checks", (f"{number:7} {', '.join(keys)}" for number, keys in table.by_checks.items()))
    lines += _section("not evaluated", (f"{number:7} {reason}" for number, reason in table.not_evaluated.items()))
    return "\n".join(lines) + "\n"


def _difference(finding: Finding) -> str:
    expected = "a deviation" if finding.item.deviates else "holds"
    return f"{finding.item.number:7} {finding.node}: {finding.verdict} (expected {expected}): {finding.found}"


def _section(title: str, rows: Iterable[str]) -> list[str]:
    listed = [f"  {row}" for row in rows]
    return ["", f"{title} ({len(listed)})", *listed] if listed else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
