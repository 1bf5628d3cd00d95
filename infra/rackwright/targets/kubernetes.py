"""What a Kubernetes cluster needs beside its nodes, on every target."""

from __future__ import annotations

import pulumi

from rackwright.handover import paths
from rackwright.plan import Plan
from rackwright.targets import digests, resources


def folder(plan: Plan) -> pulumi.Output[str] | None:
    """Where on this machine it lies, where the plan takes it."""
    made = bundle(plan)
    return made.folder if made else None


def bundle(plan: Plan) -> resources.Bundle | None:
    """Binaries and images, where the plan takes them from no repository and no registry."""
    if plan.scheduler.kind != "kubernetes" or not plan.scheduler.bundled:
        return None
    return resources.Bundle("kubernetes-bundle", version=plan.scheduler.version, digest=digests.kubernetes_bundle(paths.project_root()))
