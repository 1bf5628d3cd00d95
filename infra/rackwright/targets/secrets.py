"""Secrets that are generated once for a stack and exist on its nodes only."""

from __future__ import annotations

from typing import Any

import pulumi

from rackwright.plan import Plan
from rackwright.targets.monitoring import monitoring_secrets
from rackwright.targets.resources import RandomBytes


def generated_secrets(plan: Plan) -> dict[str, Any]:
    """Return the secrets of the scheduler and of monitoring, by the names of the roles' variables."""
    return {**_scheduler(plan), **monitoring_secrets(plan)}


def _scheduler(plan: Plan) -> dict[str, pulumi.Input[str]]:
    if plan.scheduler.kind == "kubernetes":
        # 32 bytes: kubernetes.io/docs/tasks/administer-cluster/encrypt-data, provider aesgcm or secretbox.
        return {"kubernetes_encryption_key": RandomBytes("kubernetes-encryption-key", length=32).base64}
    return {
        "munge_key": RandomBytes("munge-key", length=1024).base64,
        "accounting_password": RandomBytes("accounting-password", length=24).hex,
    }
