"""The declared GitHub Actions runner, expanded."""

from __future__ import annotations

from typing import Final

from rackwright.catalog.runner_releases import newest, runner_digests
from rackwright.model.cluster import Cluster
from rackwright.plan.schema import PlannedRunner

_WITHOUT_SCRATCH: Final = "/var/lib/actions-runner/work"


def expand_runner(cluster: Cluster) -> PlannedRunner | None:
    """Return the runner of the cluster; None where the stack file declares none."""
    declared = cluster.runner
    if declared is None:
        return None
    version = declared.version or newest()
    scratch = cluster.scratch if cluster.target.manage_kernel else None
    return PlannedRunner(
        url=declared.url.rstrip("/"),
        labels=declared.labels,
        group=declared.group,
        ephemeral=declared.ephemeral,
        auto_update=declared.auto_update,
        version=version,
        sha256={**runner_digests().get(version, {}), **{key.value: digest for key, digest in declared.sha256.items()}},
        work_folder=f"{scratch.mount.rstrip('/')}/actions-runner" if scratch else _WITHOUT_SCRATCH,
        memory_percent=declared.limits.memory_percent,
        cpu_percent=declared.limits.cpu_percent,
    )
