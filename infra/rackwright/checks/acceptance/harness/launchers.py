"""The launcher of a stack's scheduler, and its programs on the nodes (rackwright.remote.programs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackwright.checks.acceptance.harness.kubernetes import Kubernetes
from rackwright.checks.acceptance.harness.launcher import Launcher
from rackwright.checks.acceptance.harness.node_scope import SubmitHost
from rackwright.checks.acceptance.harness.slurm import Slurm
from rackwright.checks.acceptance.phase import runs_pods
from rackwright.inventory.reader import Inventory


def launcher(sender: SubmitHost, identity: Mapping[str, Any]) -> Launcher:
    """Return the launcher of the stack."""
    if not runs_pods(sender.declared):
        return Slurm(sender.declared)
    return Kubernetes(sender.declared, sender.namespace or "default", sender.mount, int(identity["uid"]), int(identity["gid"]))


def job_program(declared: Inventory) -> str:
    """Return the program that runs jobs on the node from which they are submitted."""
    return "kubernetes_jobs" if runs_pods(declared) else "slurm_jobs"


def node_query_program() -> str:
    """Return the program that queries nodes on a controller."""
    return "kubernetes_nodes"
