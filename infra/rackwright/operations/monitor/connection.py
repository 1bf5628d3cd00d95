"""The connection to Prometheus and Alertmanager of a running stack."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rackwright.drivers import ssh_connections
from rackwright.drivers.monitoring_relay import MonitoringRelay
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack

_REACH: Final = 15.0
"""Seconds for connecting to the monitoring node, through a jump host where it has one."""


@contextmanager
def connect(running: RunningStack) -> Iterator[MonitoringRelay]:
    """Open a session with the stack's monitoring node.

    Raises InputError if the stack has no Prometheus of its own, UndeterminedError if the node or its Prometheus cannot be reached.
    """
    node, ports = server_of(running)
    lost = asyncio.run(ssh_connections.connect_all(running.name, [node], within=_REACH))
    if lost:
        raise UndeterminedError(f"cannot be reached: {lost[node]}", path=node, hint=f"run `rackwright verify {running.name}`")
    with MonitoringRelay(running.name, node, ports, sudo=running.inventory.needs_sudo(node)) as relay:
        yield relay


def server_of(running: RunningStack) -> tuple[str, dict[str, int]]:
    """Return the node that runs Prometheus and Alertmanager, and their ports by daemon."""
    monitoring = running.inventory.monitoring
    if monitoring is None:
        hint = f"add `monitoring: {{kind: builtin}}` to its stack file and run `rackwright up {running.name}`"
        raise InputError("has no monitoring", path=f"stack {running.name}", hint=hint)
    if not monitoring.get("server"):
        hint = (
            f"query the site's own Prometheus; `rackwright export dashboards {running.name} --to FOLDER` writes the boards for its Grafana"
        )
        raise InputError("has no Prometheus of its own (`monitoring.kind: external`)", path=f"stack {running.name}", hint=hint)
    ports = {one["job"]: one["port"] for one in monitoring["targets"] if one["job"] in ("prometheus", "alertmanager")}
    return monitoring["server"], ports
