"""Run on the node, imported by smoke_pods: run a LeaderWorkerSet of one leader and one worker, which request each other.

No time limit of the kubelet ends these pods: a StatefulSet's pods may have none. A run that is killed leaves them to the next run.
Python 3.9, standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_checks as checks
from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs import pod_owners
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

if TYPE_CHECKING:
    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

NAME = "group"
LEADER = NAME + "-0"
WORKER = NAME + "-0-1"
"""Names that LeaderWorkerSet gives to the pods of the first group (its docs, Concepts)."""
LEADER_ADDRESS = "LWS_LEADER_ADDRESS"
"""Variable that its webhook adds to each container (api/leaderworkerset/v1/leaderworkerset_types.go)."""
_OWNERS = ("LeaderWorkerSet", "StatefulSet")


def path(namespace: str) -> str:
    """Return the path of the set in a namespace."""
    return "/apis/leaderworkerset.x-k8s.io/v1/namespaces/" + namespace + "/leaderworkersets"


def manifest(request: Object, nodes: Sequence[Object]) -> Object:
    """Return a set of one group of two pods: on two nodes, or on the only one."""
    taints = sorted({taint for node in nodes for taint in node["taints"]})
    spec = manifests.pod("", ["serve"], request, {"name": "", "taints": taints})["spec"]
    for key in ("activeDeadlineSeconds", "nodeSelector", "restartPolicy"):
        del spec[key]
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": sorted({node["name"] for node in nodes})}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [where]}]}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    labels = {"group": NAME}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    spec["topologySpreadConstraints"] = [dict(spread, labelSelector={"matchLabels": labels})]
    template = {"metadata": {"labels": dict(manifests.OWNER, **labels)}, "spec": spec}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": NAME, "labels": dict(manifests.OWNER)},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
    }


def group(run: Run, nodes: Sequence[Object]) -> Object:
    """Run the set, let its pods request each other by name, and delete it."""
    try:
        run.api.post(path(run.namespace), manifest(run.request, [nodes[0], nodes[-1]]))
    except ApiRefusedError as refused:
        return {"refused": str(refused), "pods": {}, "asks": {}}
    failure = pod_owners.await_pods(run, _are_running, _OWNERS, checks.POD_START_TIMEOUT)
    found = {"leader": _seen(run, LEADER, failure), "worker": _seen(run, WORKER, failure)}
    asks: Object = {}
    if all(one["phase"] == "Running" for one in found.values()):
        known = time.monotonic() + run.left(checks.KNOWN)
        asks = {"leader": _ask(run, WORKER, leader_address(run.pods.get(WORKER)), known)}
        asks["worker"] = _ask(run, LEADER, WORKER + "." + NAME + "." + run.namespace, known)
    run.api.delete(path(run.namespace) + "/" + NAME)
    run.until(lambda pods: not {LEADER, WORKER} & set(pods), 10)
    return {"refused": "", "pods": found, "asks": asks}


def _are_running(pods: dict[str, Object]) -> bool:
    return bool(checks.address(pods, LEADER) and checks.address(pods, WORKER))


def _seen(run: Run, name: str, failure: str) -> Object:
    """Return a summary of a pod; of one that does not exist, why it could not be created."""
    pod = run.pods.get(name)
    return checks.seen(pod) if pod else pod_owners.not_created(run, _OWNERS, failure)


def leader_address(pod: Object | None) -> str:
    """Return the address of the leader that a pod is given; empty if it is given none."""
    containers = pod["spec"]["containers"] if pod else []
    return next((one.get("value") or "" for each in containers for one in each.get("env") or [] if one["name"] == LEADER_ADDRESS), "")


def _ask(run: Run, name: str, address: str, known: float) -> Object:
    """Request an address from a pod; retry while cluster DNS does not know it."""
    if not address:
        return {"rc": 1, "out": "", "said": "the container has no variable " + LEADER_ADDRESS}
    while True:
        result = run.inside(name, ["get", *checks.LATEST, "http://" + address + ":" + str(manifests.PORT) + "/"])
        if result["rc"] in (0, None) or time.monotonic() > known:
            return result
        time.sleep(0.3)
