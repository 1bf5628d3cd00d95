"""Probes of addons: their Deployments, their admission webhooks, and the metrics of nodes. The controllers query the API server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.probes.kubernetes import OF_API, QUEUED, parse_objects, path_of, query
from rackwright.remote.programs.quantities import quantity

HOOKED = ("jobset", "trainer", "training-operator", "leaderworkerset", "kueue", "metallb")
"""Addons with admission webhooks."""

_DENYING = {
    "trainer": ("validator.trainingruntime.trainer.kubeflow.org", "accepts a runtime without its container"),
    "training-operator": ("validator.pytorchjob.training-operator.kubeflow.org", "accepts a job without the container pytorch"),
    "metallb": ("ipaddresspoolvalidationwebhook.metallb.io", "accepts a range that ends before it begins"),
}
"""By addon whose webhooks only validate: the webhook that must deny the trial object, and the result if it does not."""
_WORKLOADS = {"deployment": "deployments", "daemon_set": "daemonsets", "metrics_deployment": "deployments"}


def workloads(addon: dict[str, Any]) -> dict[str, str]:
    """Return the paths of the addon's Deployments and DaemonSet in the API, by key of the plan."""
    kinds = {key: plural for key, plural in _WORKLOADS.items() if addon.get(key)}
    return {key: f"/apis/apps/v1/namespaces/{addon['namespace']}/{plural}/{addon[key]}" for key, plural in kinds.items()}


def _planned(context: ProbeContext) -> list[dict[str, Any]]:
    planned: list[dict[str, Any]] = context.declared.cluster["scheduler"]["addons"]
    return planned


@dataclass(frozen=True)
class DeploymentStatus:
    """A Deployment or DaemonSet: number of planned and of available replicas, and image."""

    planned: int
    available: int
    image: str


def parse_deployments(text: str) -> dict[str, DeploymentStatus | None]:
    """Return Deployments and DaemonSets by path; None for one that does not exist."""
    found: dict[str, Any] = json.loads(text)
    if not found:
        raise ValueError("no Deployment is listed")
    return {path: _running(one) if one else None for path, one in found.items()}


def _running(one: dict[str, Any]) -> DeploymentStatus:
    spec, status = one["spec"], one.get("status") or {}
    image = spec["template"]["spec"]["containers"][0]["image"]
    # While an update hangs, the pods of the release before are available.
    if one.get("kind") == "DaemonSet":
        available = min(status.get("numberAvailable", 0), status.get("updatedNumberScheduled", 0))
        return DeploymentStatus(status.get("desiredNumberScheduled", 0), available, image)
    available = min(status.get("availableReplicas", 0), status.get("updatedReplicas", 0))
    return DeploymentStatus(spec.get("replicas", 1), available, image)


DEPLOYMENTS = Probe(
    "addon-deployments",
    on="kube_control_plane",
    command=lambda context: query("objects", *(path for one in _planned(context) for path in workloads(one).values())),
    parse=cache(parse_deployments),
    needs=OF_API,
)


def _queues(context: ProbeContext) -> str:
    planned = [one for one in context.declared.cluster["scheduler"]["objects"] if one["kind"] in QUEUED]
    return query("objects", *map(path_of, planned))


QUEUES = Probe("addon-queues", on="kube_control_plane", command=_queues, parse=cache(parse_objects), needs=OF_API)


def parse_hooks(text: str) -> dict[str, str]:
    """Return, by addon, whether its webhooks answered: what they added to a trial object, or why the request was refused."""
    found: dict[str, Any] = json.loads(text)
    if not found:
        raise ValueError("no webhook was tested")
    return {name: _added(name, one) for name, one in found.items()}


def _added(name: str, one: dict[str, Any]) -> str:
    if name in _DENYING:
        (webhook, accepted), refused = _DENYING[name], str(one.get("refused", ""))
        return "answers" if f'admission webhook "{webhook}" denied the request' in refused else refused or accepted
    if "refused" in one:
        return str(one["refused"])
    if name == "kueue":
        return "answers" if "kueue.x-k8s.io/resource-in-use" in one["metadata"].get("finalizers", ()) else "adds no finalizer"
    if name == "leaderworkerset":  # The API server fills in every other default itself, by the definition.
        return "answers" if one["spec"].get("networkConfig", {}).get("subdomainPolicy") == "Shared" else "sets no subdomain policy"
    jobs = one["spec"]["replicatedJobs"]
    modes = {each["template"]["spec"].get("completionMode", "none") for each in jobs}
    return "answers" if modes == {"Indexed"} else "does not index its jobs"


HOOKS = Probe(
    "addon-hooks",
    on="kube_control_plane",
    command=lambda context: query("hooks", *(one["name"] for one in _planned(context) if one["name"] in HOOKED)),
    parse=cache(parse_hooks),
    needs=OF_API,
)


@dataclass(frozen=True)
class MetricsStatus:
    """Metrics of metrics-server: the age of each node's metrics in seconds, or why there are none."""

    error: str
    ages: dict[str, float]


def parse_metrics(text: str) -> MetricsStatus:
    """Return the nodes with metrics of CPU and memory."""
    found: dict[str, Any] = json.loads(text)
    complete = {name: one["age"] for name, one in found["nodes"].items() if _is_measured(one)}
    return MetricsStatus(found["error"], complete)


def _is_measured(one: dict[str, Any]) -> bool:
    """Return whether age, CPU and memory were read; no node uses no memory."""
    try:
        return one["age"] is not None and quantity(one["cpu"]) >= 0 and quantity(one["memory"]) > 0
    except ValueError:
        return False


METRICS = Probe("addon-measurements", on="kube_control_plane", command=query("measurements"), parse=cache(parse_metrics), needs=OF_API)
