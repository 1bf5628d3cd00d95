"""What monitoring may read in the cluster: lists of few kinds, metrics of kubelets and API servers, and no secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

COLLECTOR: Final = "rackwright-monitoring"
"""Name in the client certificate of the collector (roles/metrics_collectors)."""
PROMETHEUS: Final = "rackwright-prometheus"
"""Name in the client certificate of Prometheus (roles/prometheus)."""
_RBAC: Final = "rbac.authorization.k8s.io"
_MANAGED: Final = {"app.kubernetes.io/managed-by": "rackwright"}


def monitoring_objects(*, scraped: bool) -> Iterator[dict[str, Any]]:
    """Yield the roles of the collector and, if it reads kubelets and API servers (`scraped`), of Prometheus, with their bindings."""
    yield from _granted(
        COLLECTOR,
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
        {"apiGroups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": ["list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
    )
    if scraped:
        # A kubelet asks for this right at its paths of metrics (kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz).
        yield from _granted(
            PROMETHEUS,
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        )


def _granted(user: str, *rules: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the role of a user and its binding."""
    metadata = {"name": user, "labels": _MANAGED}
    yield {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
