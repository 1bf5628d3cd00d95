"""NetworkPolicies of users' namespaces: the traffic that their pods may send and receive, where the network enforces policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Object = dict[str, Any]
_MANAGED: Final = {"app.kubernetes.io/managed-by": "rackwright"}
_BOTH: Final = ["Ingress", "Egress"]
_DNS_PORT: Final = 53
"""Port of DNS (RFC 1035, section 4.2)."""
DENY: Final = "default-deny"
"""Name of the policy that denies all other traffic."""


def policies(namespace: str, pods: str, nodes: str) -> Iterator[Object]:
    """Yield policies that deny all traffic except inside the namespace, to the cluster's DNS, and to addresses outside the cluster.

    Users of the namespace may add policies of their own, which can only admit more.
    """
    yield _policy(namespace, DENY, {"policyTypes": _BOTH})
    peers: list[Object] = [{"podSelector": {}}]
    yield _policy(namespace, "within", {"policyTypes": _BOTH, "ingress": [{"from": peers}], "egress": [{"to": peers}]})
    servers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    ports = [{"port": _DNS_PORT, "protocol": protocol} for protocol in ("UDP", "TCP")]
    yield _policy(namespace, "names", {"policyTypes": ["Egress"], "egress": [{"to": [servers], "ports": ports}]})
    outside = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [pods, nodes]}}
    yield _policy(namespace, "outside", {"policyTypes": ["Egress"], "egress": [{"to": [outside]}]})


def _policy(namespace: str, name: str, said: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": _MANAGED},
        "spec": {"podSelector": {}, **said},
    }
