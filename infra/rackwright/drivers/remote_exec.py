"""Execution of a program of rackwright.remote on many nodes, over the stack's SSH connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from rackwright.drivers import ssh_connections
from rackwright.drivers.process import ProcessTimeoutError, stream
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.concurrency import max_parallel
from rackwright.remote.command import encode_request, python_command

LONGEST: Final = 40.0
"""Time limit per node, in seconds. A node reads files of some megabytes and queries its package manager."""
_LATE: Final = "the program did not end within"
_NO_LIMIT: Final = 365 * 86400.0
"""Seconds of a stream that a user ends."""
_AT_ONCE: Final = 32
"""Number of parallel nodes.

Chosen: half of the attempts to connect (`ssh_connections._AT_ONCE`), because each result is parsed here. Not measured.
"""


async def run_on_nodes(
    stack: str, program: str, requests: Mapping[str, Mapping[str, Any]], sudo: Mapping[str, bool], *, target: str, limit: float = LONGEST
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the result of each node, and the reason for each node without one.

    `requests`: by node, sent on standard input. `sudo`: node -> whether it is needed. `limit`: seconds for each node.
    """
    slots = asyncio.Semaphore(max_parallel(target, _AT_ONCE))

    async def one(name: str) -> Any:
        async with slots:
            return await _run_on_node(stack, program, requests[name], name, sudo=sudo[name], limit=limit)

    found = dict(zip(requests, await asyncio.gather(*map(one, requests)), strict=True))
    return (
        {name: result for name, result in found.items() if not isinstance(result, str)},
        {name: why for name, why in found.items() if isinstance(why, str)},
    )


def is_late(reason: str) -> bool:
    """Return whether the reason why a node has no result is its time limit."""
    return reason.startswith(_LATE)


async def stream_from_node(
    stack: str, program: str, request: Mapping[str, Any], name: str, *, sudo: bool, on_value: Callable[[Any], Awaitable[None]]
) -> str:
    """Pass on each line of JSON that a program prints, until it ends; return why it ended. Other lines are skipped."""

    async def on_line(line: str) -> None:
        try:
            value = json.loads(line)
        except ValueError:
            return
        await on_value(value)

    command = ["ssh", "-F", str(paths.ssh_config(stack)), name, *(["sudo", "-n"] if sudo else []), python_command(program, None)]
    ended = await stream(command, on_line, stdin=encode_request(request), timeout=_NO_LIMIT)
    return ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else f"ssh ended with status {ended.status}"


async def run_as_user(
    stack: str, program: str, request: Mapping[str, Any], name: str, user: str, *, sudo: bool, limit: float = LONGEST
) -> dict[str, Any]:
    """Return the result of a program that runs on a node as an ordinary user. Raises UndeterminedError if there is none."""
    command = [*(["sudo", "-n"] if sudo else []), "runuser", "-u", user, "--", python_command(program, None)]
    found = await _result(stack, command, request, name, limit=limit)
    if isinstance(found, str):
        raise UndeterminedError(found, path=name)
    return dict(found)


async def _run_on_node(stack: str, program: str, request: Mapping[str, Any], name: str, *, sudo: bool, limit: float) -> Any:
    """Return the node's result, or the reason why there is none."""
    command = [*(["sudo", "-n"] if sudo else []), python_command(program, None)]
    return await _result(stack, command, request, name, limit=limit)


async def _result(stack: str, command: Sequence[str], request: Mapping[str, Any], name: str, *, limit: float) -> Any:
    try:
        ended = await ssh_connections.run_ssh(stack, name, *command, stdin=encode_request(request), timeout=limit)
    except ProcessTimeoutError:
        return f"{_LATE} {limit:.0f} s"
    if not ended.ok:
        return ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else f"python3 ended with {ended.status}"
    try:
        return json.loads(ended.stdout)
    except ValueError:
        return f"answered what is no JSON: {ended.stdout[:80]!r}"
