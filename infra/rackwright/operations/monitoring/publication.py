"""Results of runs as metrics on a node of the cluster, where Prometheus reads them beside everything else.

They are produced on any machine from which the stack is operated, and by CI at night: no daemon of the cluster could read them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rackwright.drift import metrics as drift_metrics
from rackwright.drift.document import DriftReport
from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import RackwrightError
from rackwright.inventory.reader import Inventory, load
from rackwright.operations.monitoring import silences
from rackwright.report.acceptance import Acceptance
from rackwright.report.document import Report
from rackwright.report.metrics import acceptance_metrics, verification_metrics

_REACH: Final = 10.0
"""Seconds for connecting to the node; the run that produced the results has connected before."""
_WRITE: Final = 20.0
"""Seconds for writing a few files of some kilobytes."""


async def publish_verification(inventory: Path, report: Report) -> list[str]:
    """Publish the results of a verification, and silence nodes that are out; return why that failed.

    Results of selected nodes are not those of the cluster.
    """
    return [] if report.partial else await _publish_or_reason(inventory, {"verify": verification_metrics(report)})


async def publish_acceptance(inventory: Path, acceptance: Acceptance) -> list[str]:
    """Publish results and measurements of an acceptance test; return why that failed."""
    return await _publish_or_reason(inventory, acceptance_metrics(acceptance))


async def publish_drift(declared: Inventory, report: DriftReport) -> list[str]:
    """Publish the results of a drift scan, and silence nodes that are out; return why that failed."""
    return await publish(declared, {"drift": drift_metrics.as_text(report)})


async def publish(declared: Inventory, files: Mapping[str, str], *, renew_silences: bool = True) -> list[str]:
    """Write files of metrics, by the name of their subject, to the node that serves results; return why that failed.

    Then silence the alerts about nodes that are out, whose silences end sooner than the nodes are back where no date is declared.
    Nothing is written where the stack declares no monitoring. The results themselves are on this machine in any case.
    `renew_silences`: a run that publishes several times renews them once.
    """
    node = results_node(declared)
    if node is None or not files:
        return []
    try:
        lost = await ssh_connections.connect_all(declared.stack, [node], within=_REACH)
        if not lost:
            requests, sudo = {node: {"files": dict(files)}}, {node: declared.needs_sudo(node)}
            _, lost = await remote_exec.run_on_nodes(declared.stack, "result_metrics", requests, sudo, target=declared.target, limit=_WRITE)
    except (RackwrightError, OSError) as error:
        lost = {node: str(error)}
    failures = [f"{name}: cannot write the metrics of this run ({', '.join(files)}): {why}" for name, why in lost.items()]
    return failures or (await silences.silence_out_nodes(declared) if renew_silences else [])


def results_node(declared: Inventory) -> str | None:
    """Return the node whose exporter serves results: the monitoring node, else the first that is watched; None without monitoring."""
    if declared.monitoring is None:
        return None
    server: str | None = declared.monitoring.get("server")
    watched = [str(node["name"]) for node in declared.monitoring["nodes"]]
    return server or next(iter(watched), None)


async def _publish_or_reason(inventory: Path, files: Mapping[str, str]) -> list[str]:
    try:
        declared = load(inventory)
    except RackwrightError as error:
        return [f"cannot write the metrics of this run: {error}"]
    return await publish(declared, files)
