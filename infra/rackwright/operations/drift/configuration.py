"""Drift scan of the configuration layer: the changes that the playbooks would make on every reachable node."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Final

from rackwright.drift import configuration
from rackwright.drift.difference import CLUSTER, Layer, LayerScan
from rackwright.drivers import ssh_connections
from rackwright.drivers.power import PowerSavingNodes, wake_nodes
from rackwright.drivers.task_diff import truncate_lines
from rackwright.inventory import is_baked, paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.check_mode.runner import DEFAULT_SITE, CheckModeResult, PlaybookRun
from rackwright.operations.check_mode.runner import run as run_check_mode
from rackwright.report.redact import Redactor, redactor

_REACH: Final = 10.0
"""Timeout in seconds for connecting to a node during a scan."""


async def scan(running: RunningStack, say: Callable[[str], Awaitable[None]]) -> LayerScan:
    """Run the playbooks in check mode, or reuse the cached result, and return their changes as differences."""
    began = time.monotonic()
    stack, cluster, own = running.name, running.inventory.cluster, paths.site(running.name)
    skipped = ("install",) if is_baked(cluster) else ()
    phases = PlaybookRun(stack, paths.inventory(stack), paths.secrets(stack), str(own) if own.exists() else DEFAULT_SITE, skipped)
    async with wake_nodes(stack, PowerSavingNodes.of(cluster["scheduler"]), say):
        lost = await ssh_connections.connect_all(stack, list(phases.root), within=_REACH)
        return _read(stack, await run_check_mode(phases, lost, say), lost, began)


def _read(stack: str, found: CheckModeResult, lost: Mapping[str, str], began: float) -> LayerScan:
    """Return the result of the playbooks as a scan of the configuration layer, with secrets masked."""
    applied, mask = found.applied, redactor(paths.secrets(stack))
    changed = [_masked(asdict(one), mask) for one in (*applied.changed, *applied.requires_drain)]
    failed = [asdict(one) for one in (*applied.unreachable, *applied.failed)]
    layer = configuration.scan(stack, time.monotonic() - began, changed, failed)
    unknown = tuple(lost.items()) + (((CLUSTER, applied.message),) if applied.status and applied.message and not failed else ())
    return LayerScan(
        Layer.CONFIGURATION, layer.seconds, layer.differences, (*unknown, *layer.unknown), found.method, found.message, found.incomplete
    )


def _masked(item: Mapping[str, str], mask: Redactor) -> dict[str, str]:
    """Mask secrets, then shorten: people forward reports with lines of files, and a truncated secret would not be recognised."""
    shown = {name: truncate_lines(mask(item[name])) for name in ("live", "declared")}
    return {**item, "detail": mask(item["detail"]), **shown}
