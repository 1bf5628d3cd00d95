"""New log entries of a running stack's nodes, as they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.logs import REACH, LogQuery, pattern, select_nodes
from rackwright.report.logs.document import LogEntry
from rackwright.report.redact import redactor

_CLOSING: Final = 0.1
"""Seconds in which the event loop closes the pipes of children that were killed."""
MOST_NODES: Final = 200
"""Nodes that are followed at a time: each is a process of ssh on the control machine."""


def follow_logs(stack: str, query: LogQuery, on_entry: Callable[[LogEntry], None], on_remark: Callable[[str], None]) -> None:
    """Pass on each new entry until Ctrl-C, in the order of arrival. `on_remark` receives nodes that are not followed, and why.

    Raises InputError if the stack is not up, for an unknown node, a pattern that is none and too many nodes; UndeterminedError as soon as
    no node is followed any more.
    """
    running = RunningStack.of(stack)
    names = select_nodes(running, query.nodes)
    if len(names) > MOST_NODES:
        raise InputError(f"{len(names)} nodes are too many (expected at most {MOST_NODES})", path="--follow", hint="pass --node")
    units = [unit.removesuffix(".service") for unit in query.units]
    rules = [["", pattern(query.grep)]] if query.grep else []
    request = {"units": units, "rules": rules, "priority": query.priority, "lines": 0}
    try:
        asyncio.run(_follow(running, names, request, on_entry, on_remark))
    except KeyboardInterrupt:
        return
    raise UndeterminedError("no node is followed any more", path=f"stack {stack}")


async def _follow(
    running: RunningStack,
    names: Sequence[str],
    request: dict[str, Any],
    on_entry: Callable[[LogEntry], None],
    on_remark: Callable[[str], None],
) -> None:
    records = {**running.inventory.nodes, **running.inventory.out}
    mask = redactor(paths.secrets(running.name), paths.ssh_private_key_file(running.name))

    async def one(name: str) -> None:
        async def on_value(value: Any) -> None:
            if isinstance(value, list):
                moment, unit, priority, pid, message = value
                on_entry(LogEntry(moment / 1e6, name, unit, priority, pid, mask(message)))
            elif isinstance(value, dict) and value["files"]:
                on_remark(f"{name}: log files are not followed: {', '.join(value['files'])}")

        sudo = records[name]["user"] != "root"
        why = await remote_exec.stream_from_node(running.name, "journal_follow", request, name, sudo=sudo, on_value=on_value)
        on_remark(f"{name}: not followed any more: {mask(why)}")

    lost = await ssh_connections.connect_all(running.name, names, within=REACH)
    for name, why in lost.items():
        on_remark(f"{name}: not followed: {why}")
    try:
        async with asyncio.TaskGroup() as group:
            for name in names:
                if name not in lost:
                    group.create_task(one(name))
    finally:
        await asyncio.sleep(_CLOSING)
