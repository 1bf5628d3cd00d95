"""A check of the cluster's own, made of one machine of these tests."""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory


def verdict(
    check: Callable[..., None],
    declared: Inventory,
    name: str,
    run: Callable[[str, str], subprocess.CompletedProcess[str]],
    limit: Any = None,
) -> tuple[str, str]:
    """Return the check's verdict and reason for the machine `name`; `run` runs a command on a machine."""
    record = declared.nodes[name]

    def ask(probe: Probe[Any]) -> Any:
        ended = run(name, probe.command_at(SimpleNamespace(node=record, declared=declared)))  # type: ignore[arg-type]
        return probe.read(CommandOutput(ended.returncode, ended.stdout, ended.stderr))

    offered = {
        "node": _plain(record),
        "cluster": _plain(declared.cluster),
        "node_stack": _plain(declared.node_stack),
        "ask": ask,
        "expect": Expect(),
        "limit": limit,
    }
    try:
        check(**{word: offered[word] for word in inspect.signature(check).parameters})
    except (Mismatch, UndeterminedError) as wrong:
        return ("failed" if isinstance(wrong, Mismatch) else "unknown"), str(wrong)
    return "passed", ""


def _plain(data: Any) -> Any:
    """Return a record in the form that checks receive."""
    return json.loads(json.dumps(data), object_hook=lambda values: SimpleNamespace(**values))
