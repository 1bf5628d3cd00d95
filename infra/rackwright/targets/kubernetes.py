"""What a Kubernetes cluster needs beside its nodes, on every target."""

from __future__ import annotations

from rackwright.handover import paths
from rackwright.plan import Plan
from rackwright.targets import digests, resources


def bundle(plan: Plan) -> resources.Bundle | None:
    """Binaries and images, where the plan takes them from no repository and no registry."""
    if plan.scheduler.kind != "kubernetes" or not plan.scheduler.bundled:
        return None
    return resources.Bundle("kubernetes-bundle", version=plan.scheduler.version, digest=digests.kubernetes_bundle(paths.project_root()))
