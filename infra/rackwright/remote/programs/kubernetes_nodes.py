"""Run on the node, a controller, imported by job_submission: how the nodes are, by the API in the administrator's name.

An ordinary user of a namespace sees neither nodes nor other people's pods. Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from rackwright.remote.programs.kubernetes_client import ADMIN, Api

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
RUN = "rackwright-accept"
"""The label of whatever belongs to a run."""


def states(request: Object) -> dict[str, str]:
    """How the nodes are, in the words of sinfo, once they have ended what they were doing or had the time for it."""
    api, began = Api(os.environ.get("KUBECONFIG") or ADMIN), time.time()
    while True:
        found = look(api, request)
        waited = time.time() - began
        ends = any(state.startswith("completing") for state in found.values())
        patience = max(request["settle_seconds"], request.get("completing_seconds", 0)) if ends else request["settle_seconds"]
        if waited >= patience or all(state == "idle none" for state in found.values()):
            return found
        time.sleep(0.5)


def look(api: Api, request: Object) -> dict[str, str]:
    """State by node, as it is now; a node that the cluster does not have is missing."""
    pods = api.get("/api/v1/pods?fieldSelector=status.phase!=Succeeded,status.phase!=Failed")["items"]
    nodes = {node["metadata"]["name"]: node for node in api.get("/api/v1/nodes")["items"]}
    return {name: state(nodes[name], request["taints"].get(name, ()), pods) for name in request["nodes"] if name in nodes}


def state(node: Object, planned: Sequence[str], pods: Sequence[Object]) -> str:
    """One node: whether it takes pods, and whose GPUs are taken on it."""
    name, conditions = node["metadata"]["name"], {one["type"]: one for one in node["status"].get("conditions") or []}
    ready = conditions.get("Ready") or {}
    if ready.get("status") != "True":
        return "down not ready: " + (ready.get("message") or "its kubelet says nothing")
    if node["spec"].get("unschedulable"):
        return "drained cordoned"
    known = {one.replace("=:", ":") for one in planned}
    taints = [
        "{}={}:{}".format(one["key"], one.get("value") or "", one["effect"]).replace("=:", ":") for one in node["spec"].get("taints") or []
    ]
    strange = [one for one in taints if one not in known and not one.endswith("PreferNoSchedule")]
    if strange:
        return "drained tainted " + ", ".join(strange)
    here = [pod for pod in pods if pod["spec"].get("nodeName") == name]
    others = sorted({pod["metadata"]["namespace"] + "/" + pod["metadata"]["name"] for pod in here if gpus(pod) and not ours(pod)})
    if others:
        return "allocated GPUs of " + ", ".join(others)
    return "completing none" if any(map(ours, here)) else "idle none"


def ours(pod: Object) -> bool:
    """Whether a run of the acceptance made it."""
    return RUN in (pod["metadata"].get("labels") or {})


def gpus(pod: Object) -> int:
    """GPUs it holds."""
    wanted = (one.get("resources") or {} for one in pod["spec"]["containers"])
    return sum(int((one.get("requests") or one.get("limits") or {}).get(GPU, 0)) for one in wanted)


def begin(_asked: Sequence[Object]) -> None:
    """Nobody sends jobs from here."""


def end() -> None:
    """Nothing was made."""
