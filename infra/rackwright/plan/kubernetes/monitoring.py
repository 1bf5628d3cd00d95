"""What the collector of metrics may read in the API: lists of few kinds, and no secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

USER: Final = "rackwright-monitoring"
"""Name in the client certificate of the collector (roles/metrics_collectors)."""
_RBAC: Final = "rbac.authorization.k8s.io"
_MANAGED: Final = {"app.kubernetes.io/managed-by": "rackwright"}


def monitoring_objects() -> Iterator[dict[str, Any]]:
    """Yield the role of the collector and its binding."""
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": USER, "labels": _MANAGED},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
            {"apiGroups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": ["list"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
        ],
    }
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER, "labels": _MANAGED},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": USER}],
    }
