"""Secrets that are generated once for a stack and exist on its nodes only."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets.resources import RandomBytes


def generated_secrets(plan: Plan) -> dict[str, pulumi.Input[str]]:
    """Return the scheduler's secrets, by the names of the roles' variables."""
    if plan.scheduler.kind == "kubernetes":
        # 32 bytes: kubernetes.io/docs/tasks/administer-cluster/encrypt-data, provider aesgcm or secretbox.
        return {"kubernetes_encryption_key": RandomBytes("kubernetes-encryption-key", length=32).base64}
    return {
        "munge_key": RandomBytes("munge-key", length=1024).base64,
        "accounting_password": RandomBytes("accounting-password", length=24).hex,
    }
