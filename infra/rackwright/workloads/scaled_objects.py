"""Autoscaling by KEDA, by the number of requests that wait in the pods of a model server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.catalog.addons import addons

Object = dict[str, Any]
ADDON: Final = "keda"
METRIC: Final = "vllm:num_requests_waiting"
_POLL: Final = 5
"""Seconds between two readings by KEDA (pollingInterval, default 30). Its autoscaler reads every 15 s on its own
(kube-controller-manager, --horizontal-pod-autoscaler-sync-period)."""


@dataclass(frozen=True)
class QueueTarget:
    """How a Deployment is scaled. Its Service has the same name."""

    port: int
    """Port of the pods, at which `/metrics` is."""
    most: int
    waiting: int
    """Waiting requests of a replica to scale to."""
    window: int
    """Seconds of which the largest number of replicas counts before one is removed."""


def scaled_object(metadata: Mapping[str, Any], target: QueueTarget) -> Object:
    """Return a ScaledObject that reads the metric of each ready pod of a Service, and scales by the sum.

    At least one replica stays: the metric comes from the server itself, so that without a replica there is none.
    """
    name, namespace = metadata["name"], metadata["namespace"]
    trigger = {
        "type": "metrics-api",
        "metricType": "AverageValue",
        "metadata": {
            "url": f"http://{name}.{namespace}.svc:{target.port}/metrics",
            "format": "prometheus",
            "valueLocation": METRIC,
            "aggregateFromKubeServiceEndpoints": "true",
            "aggregationType": "sum",
            "targetValue": str(target.waiting),
        },
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": target.window}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": dict(metadata),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicaCount": 1,
            "maxReplicaCount": target.most,
            "pollingInterval": _POLL,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [trigger],
        },
    }


def reading_policy(metadata: Mapping[str, Any], labels: Mapping[str, str], port: int) -> Object:
    """Return a NetworkPolicy that admits KEDA to the metrics of the pods with these labels, where a namespace denies other traffic."""
    installed = addons()[ADDON].installed
    assert installed is not None
    source = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": installed.namespace}},
        "podSelector": {"matchLabels": {"app": installed.deployment}},
    }
    rule = {"from": [source], "ports": [{"port": port, "protocol": "TCP"}]}
    spec = {"podSelector": {"matchLabels": dict(labels)}, "policyTypes": ["Ingress"], "ingress": [rule]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": dict(metadata), "spec": spec}
