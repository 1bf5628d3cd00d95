"""Why a node does not respond, as this machine sees its container or its virtual machine."""

from __future__ import annotations

import re
from typing import Any

from rackwright.drivers.ssh_connections import Cause
from rackwright.inventory import paths
from rackwright.inventory.reader import load
from rackwright.provider.lab import node_failure
from rackwright.provider.vm import node_failure as machine_failure


def cause_reader(stack: str, target: str) -> Cause | None:
    """Return a function that reads on this machine why a node of the stack does not respond; None for nodes that are elsewhere."""
    failure_of = {"lab": node_failure.failure_of, "vm": machine_failure.failure_of}.get(target)
    if failure_of is None:
        return None

    async def cause(name: str, last: bool) -> str | None:
        return await failure_of(stack, name, last=last)

    return cause


async def causes_of_silent_nodes(stack: str, report: dict[str, Any]) -> list[str]:
    """Return a line for each node that stopped responding during the checks, with the cause.

    A node whose container or machine runs has no line: it may respond again by now.
    """
    silent = sorted({check["node"] for check in report["checks"] if check["verdict"] == "unknown" and _is_silent(check)})
    cause = cause_reader(stack, load(paths.inventory(stack)).target) if silent else None
    return [f"{name}: {reason}" for name in silent if (reason := await cause(name, False))] if cause else []


def _is_silent(check: dict[str, Any]) -> bool:
    """Return whether a result has no value because its own node did not respond (checks/cluster/harness/transport.py)."""
    return re.search(rf"\b{re.escape(check['node'])} (is unreachable|stopped responding): ", check["reason"]) is not None
