"""Run on the node, imported by smoke_pods: a Deployment that KEDA starts when a pod waits, and stops when none does.

A pod that no scheduler places is the work. No time limit of the kubelet ends the Deployment's pod: a Deployment's pods may have none.
Python 3.9, standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_checks as checks
from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

if TYPE_CHECKING:
    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

NAME = "scaled"
WORK = "scaled-work"
ACTS = 20
"""Seconds in which the operator must act on a change. Chosen: it reads the number of waiting pods each second (pollingInterval)."""
FINALIZED = 5
"""Seconds in which the operator must let a deleted ScaledObject go (finalizer.keda.sh). After that, the finalizer is removed: without the
operator, the namespace could not end."""
READY = "Ready"
"""Condition of a ScaledObject whose scalers and target the operator accepted (apis/keda/v1alpha1/condition_types.go)."""
_LABEL = "rackwright-scaling"


def path(namespace: str) -> str:
    """Return the path of the ScaledObjects of a namespace."""
    return "/apis/keda.sh/v1alpha1/namespaces/" + namespace + "/scaledobjects"


def deployments(namespace: str) -> str:
    """Return the path of the Deployments of a namespace."""
    return "/apis/apps/v1/namespaces/" + namespace + "/deployments"


def deployment(request: Object, node: Object) -> Object:
    """Return a Deployment of no pod, whose pods run on a node."""
    spec = manifests.pod("", ["sleep", str(manifests.LIFETIME)], request, node)["spec"]
    for key in ("activeDeadlineSeconds", "restartPolicy"):
        del spec[key]
    labels = {_LABEL: NAME}
    template = {"metadata": {"labels": dict(manifests.OWNER, **labels)}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": dict(manifests.OWNER)},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def scaled_object() -> Object:
    """Return the autoscaler: as many pods as there are pods of work, at most one, and none without work."""
    trigger = {"type": "kubernetes-workload", "metadata": {"podSelector": _LABEL + "=" + WORK, "value": "1"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": NAME, "labels": dict(manifests.OWNER)},
        "spec": {
            "scaleTargetRef": {"name": NAME},
            "minReplicaCount": 0,
            "maxReplicaCount": 1,
            "pollingInterval": 1,
            "cooldownPeriod": 1,
            "triggers": [trigger],
        },
    }


def work(request: Object) -> Object:
    """Return the pod of work, which is never placed."""
    made = manifests.admitted(WORK, request)
    made["metadata"]["labels"][_LABEL] = WORK
    return made


def scaling(run: Run, nodes: Sequence[Object]) -> Object:
    """Create the objects, add work, remove it again, and delete the objects."""
    result: Object = {"refused": "", "ready": "", "idle": None, "pod": None, "busy": None, "metric": None, "after": None, "why": ""}
    try:
        run.api.post(deployments(run.namespace), deployment(run.request, nodes[-1]))
        run.api.post(path(run.namespace), scaled_object())
        _scale(run, result)
    except ApiRefusedError as refused:
        result["refused"] = str(refused)
    finally:
        remove(run)
    return result


def _scale(run: Run, result: Object) -> None:
    """Fill the result, as far as it goes."""
    if not _await(run, lambda: _condition(run)[0] == "True", ACTS):
        result["ready"] = _condition(run)[1] or _warning(run) or "the operator sets no condition"
        return
    result["idle"] = _replicas(run)
    result["refused"] = run.make(work(run.request))
    if result["refused"]:
        return
    _await(run, lambda: _replicas(run) == 1, ACTS)
    result["busy"] = _replicas(run)
    if result["busy"] != 1:
        result["why"] = _warning(run)
        return
    run.until(_runs, checks.POD_START_TIMEOUT)
    result["pod"] = checks.seen(next(iter(_own(run.pods)), None))
    result["metric"] = _metric(run)
    run.drop(WORK)
    _await(run, lambda: _replicas(run) == 0, ACTS)
    result["after"] = _replicas(run)
    result["why"] = _warning(run) if result["after"] else ""


def remove(run: Run) -> None:
    """Delete all objects. The ScaledObject comes first: its operator would scale a Deployment that is being deleted."""
    one = path(run.namespace) + "/" + NAME
    run.api.delete(one)
    if not _await(run, lambda: not _exists(run, one), FINALIZED):
        _detach(run, one)
    run.api.delete(deployments(run.namespace) + "/" + NAME)
    run.api.delete(run.path + "/pods/" + WORK, grace=1)


def _detach(run: Run, where: str) -> None:
    """Remove the finalizer, unless the operator does so at this moment."""
    try:
        run.api.call("PATCH", where, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    except ApiRefusedError as refused:
        if refused.status != 404:
            raise


def _await(run: Run, test: Callable[[], bool], seconds: float) -> bool:
    """Return whether a test passes in time."""
    ends = time.monotonic() + run.left(seconds)
    while not test():
        if time.monotonic() > ends:
            return False
        time.sleep(0.3)
    return True


def _exists(run: Run, where: str) -> bool:
    try:
        run.api.get(where)
    except ApiRefusedError as refused:
        if refused.status == 404:
            return False
        raise
    return True


def _condition(run: Run) -> tuple[str, str]:
    """Return status and message of the condition; both empty if it is not set."""
    status = run.api.get(path(run.namespace) + "/" + NAME).get("status") or {}
    for one in status.get("conditions") or []:
        if one["type"] == READY:
            return str(one["status"]), str(one.get("message") or "")
    return "", ""


def _replicas(run: Run) -> int:
    return int(run.api.get(deployments(run.namespace) + "/" + NAME)["spec"]["replicas"])


def _own(pods: dict[str, Object]) -> list[Object]:
    """Return the Deployment's pods."""
    return [one for one in pods.values() if (one["metadata"].get("labels") or {}).get(_LABEL) == NAME]


def _runs(pods: dict[str, Object]) -> bool:
    return any((one.get("status") or {}).get("phase") == "Running" for one in _own(pods))


def _metric(run: Run) -> Object:
    """Return the value that a HorizontalPodAutoscaler would read, from KEDA's metrics server; without it, the error."""
    status = run.api.get(path(run.namespace) + "/" + NAME).get("status") or {}
    name = next(iter(status.get("externalMetricNames") or []), "")
    where = "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + run.namespace + "/" + name
    found = {"value": "", "said": "the operator reports no metric"}
    ends = time.monotonic() + run.left(ACTS)
    while name:
        try:
            items = run.api.get(where + "?labelSelector=scaledobject.keda.sh%2Fname%3D" + NAME)["items"]
            found = {"value": str(items[0]["value"]), "said": ""} if items else {"value": "", "said": "the metrics server has no value"}
        except ApiRefusedError as refused:
            found = {"value": "", "said": str(refused)[:300]}
        if found["value"] or time.monotonic() > ends:
            break
        time.sleep(0.5)
    return found


def _warning(run: Run) -> str:
    """Return the last warning about the ScaledObject."""
    query = "/events?fieldSelector=type%3DWarning,involvedObject.kind%3DScaledObject,involvedObject.name%3D" + NAME
    events = sorted(run.api.get(run.path + query)["items"], key=lambda one: one.get("lastTimestamp") or one.get("eventTime") or "")
    return str(events[-1].get("message"))[:300] if events else ""
