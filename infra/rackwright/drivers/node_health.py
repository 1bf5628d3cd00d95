"""Health checks of nodes that drained themselves, outside of Slurm's interval: what was repaired meanwhile is back in service."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rackwright.drivers import ssh_connections
from rackwright.errors import RackwrightError
from rackwright.remote.command import AS_ROOT
from rackwright.time_limits import slowness

PROGRAM: Final = "/usr/local/sbin/rackwright-node-health"
_CHECK: Final = "slurm.node_is_usable"
_DRAINED_BY_CHECK: Final = re.compile(r"\(rackwright: [a-z_]+\.[a-z_]+[:)]")
"""A drain reason with the id of a check: the node drained itself (rackwright.remote.programs.slurm_node)."""
_LIMIT: Final = 90.0
"""Seconds for the program, which slurmd ends after 60 (slurm.conf(5), HealthCheckProgram); longer on a slow machine."""


def drained_nodes(report: Path) -> list[str]:
    """Return the nodes that had drained themselves when a report was written. A report that cannot be read names none."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return [one["node"] for one in json.loads(report.read_bytes())["checks"] if _is_drained_by_check(one)]
    return []


async def check_again(stack: str, nodes: list[str]) -> None:
    """Run the health check on nodes, which resumes those that are as declared. A node that does not respond stays as it is."""

    async def check(name: str) -> None:
        with suppress(RackwrightError):
            await ssh_connections.run_ssh(stack, name, f"{AS_ROOT} {PROGRAM} --now", timeout=_LIMIT * slowness())

    await asyncio.gather(*map(check, nodes))


def _is_drained_by_check(result: Mapping[str, Any]) -> bool:
    failed = result["verdict"] == "failed" and result["id"].startswith(f"{_CHECK}[")
    return failed and _DRAINED_BY_CHECK.search(result["found"]) is not None
