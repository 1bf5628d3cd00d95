"""Secrets of a stack: those that are generated once and exist on its nodes only, and a digest of those in files of this machine."""

from __future__ import annotations

from typing import Any

import pulumi

from rackwright.inventory import control_files
from rackwright.plan import Plan
from rackwright.targets.monitoring import monitoring_secrets
from rackwright.targets.resources import RandomBytes


def generated_secrets(plan: Plan) -> dict[str, Any]:
    """Return the secrets of the scheduler and of monitoring, by the names of the roles' variables."""
    return {**_scheduler(plan), **monitoring_secrets(plan)}


def secret_files(plan: Plan) -> dict[str, pulumi.Input[str]]:
    """Return a digest of the files that roles copy to nodes, so that `up` applies a changed password, token or certificate."""
    # The target names those of BMCs, which only power saving copies, and it names them itself.
    found = control_files.digest(plan.model_dump(mode="json", exclude={"target"}))
    return {"files": pulumi.Output.secret(found)} if found else {}


def _scheduler(plan: Plan) -> dict[str, pulumi.Input[str]]:
    if plan.scheduler.kind == "kubernetes":
        # 32 bytes: kubernetes.io/docs/tasks/administer-cluster/encrypt-data, provider aesgcm or secretbox.
        return {"kubernetes_encryption_key": RandomBytes("kubernetes-encryption-key", length=32).base64}
    return {
        "munge_key": RandomBytes("munge-key", length=1024).base64,
        "accounting_password": RandomBytes("accounting-password", length=24).hex,
    }
