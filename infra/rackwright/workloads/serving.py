"""A model served by vLLM: each replica has all GPUs of a node, all replicas have one address."""

from __future__ import annotations

from typing import Any, Final

from rackwright.catalog.addons import addons
from rackwright.workloads import pods
from rackwright.workloads.scaled_objects import ADDON, METRIC, QueueTarget, reading_policy, scaled_object
from rackwright.workloads.site import Site

Object = dict[str, Any]
_NAME: Final = "vllm"
_PORT: Final = 8000
"""Port of the API: the default of `vllm serve` (--port)."""
_MODEL: Final = "/workspace/shared/models/model"
_WAITING: Final = 4
"""Waiting requests of a replica to scale to, as in `rackwright demo STACK serve`."""
_WINDOW: Final = 600
"""Seconds of the stabilization window; Kubernetes' default is 300. Chosen: a removed replica takes minutes to load the model again."""
_LABELS: Final = {"app.kubernetes.io/name": _NAME}


def vllm(site: Site) -> list[Object]:
    """Return Deployment, Service, autoscaler and disruption budget; a Service of type LoadBalancer needs MetalLB or a cloud."""
    return [_deployment(site), _service(site), _autoscaler(site), _budget(site)]


def _deployment(site: Site) -> Object:
    server = {
        "name": "server",
        "image": f"vllm/vllm-openai:v{addons()['vllm'].version}",
        "args": ["--model", _MODEL, "--tensor-parallel-size", str(site.gpus), "--port", str(_PORT)],
        "ports": [{"name": "http", "containerPort": _PORT}],
        "resources": {**pods.resources(site, site.gpus), "requests": {"cpu": "1", "memory": "1Gi"}},
        # A model of hundreds of GiB takes many minutes to load before the first response; after that, a server without a response is down.
        "startupProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10, "failureThreshold": 180},
        "livenessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5},
        "volumeMounts": pods.mounts(site),
    }
    pod = {
        "priorityClassName": "service",
        "terminationGracePeriodSeconds": 60,
        "topologySpreadConstraints": pods.spread(_LABELS),
        "containers": [server],
        "volumes": pods.volumes(site),
    }
    # A replica takes all GPUs of a node: the old replica is deleted first, because the new one has no room next to it.
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    spec = {"selector": {"matchLabels": _LABELS}, "strategy": strategy, "template": {"metadata": {"labels": _LABELS}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(site), "spec": spec}


def _service(site: Site) -> Object:
    spec = {"type": "ClusterIP", "selector": _LABELS, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(site), "spec": spec}


def _autoscaler(site: Site) -> Object:
    """Return an autoscaler by CPU, the only metric of metrics-server; `vllm:num_requests_waiting` needs KEDA or Prometheus' adapter."""
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _metadata(site),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": _NAME},
            "minReplicas": 1,
            "maxReplicas": site.pods,
            "metrics": [metric],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _WINDOW}},
        },
    }


def queue_autoscaler(site: Site) -> list[Object]:
    """Return an autoscaler by waiting requests: KEDA's with the add-on `keda`, else one for prometheus-adapter and a Prometheus.

    It replaces the one by CPU: two autoscalers of one Deployment work against each other.
    """
    if any(addon.name == ADDON for addon in site.cluster.addons):
        policies = [reading_policy(_metadata(site), _LABELS, _PORT)] if site.denies_traffic else []
        scaler = scaled_object(_metadata(site), QueueTarget(_PORT, site.pods, _WAITING, _WINDOW))
        scaler["metadata"]["annotations"] = {"scaledobject.keda.sh/transfer-hpa-ownership": "true"}
        scaler["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["name"] = _NAME
        return [*policies, scaler]
    target = {"type": "AverageValue", "averageValue": str(_WAITING)}
    scaler = _autoscaler(site)
    scaler["spec"]["metrics"] = [{"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}]
    return [scaler]


def _budget(site: Site) -> Object:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _LABELS}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(site), "spec": spec}


def _metadata(site: Site) -> Object:
    return {"name": _NAME, "namespace": site.namespace, "labels": _LABELS}
