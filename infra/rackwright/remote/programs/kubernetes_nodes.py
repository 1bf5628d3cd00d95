"""Run on the node, a controller, imported by job_submission: the states of nodes, read from the API with the administrator's credentials.

An ordinary user of a namespace can list neither nodes nor other users' pods. Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from rackwright.remote.programs.kubernetes_client import ADMIN, Api
from rackwright.remote.programs.quantities import gpus_of

Object = dict[str, Any]

RUN = "rackwright-accept"
"""The label of all objects of a run."""


def states(request: Object) -> dict[str, str]:
    """Return the states of the nodes, in sinfo's terms, after their work has ended or the time limit has passed."""
    api, began = Api(os.environ.get("KUBECONFIG") or ADMIN), time.time()
    while True:
        found = read_states(api, request)
        waited = time.time() - began
        ends = any(state.startswith("completing") for state in found.values())
        patience = max(request["settle_seconds"], request.get("completing_seconds", 0)) if ends else request["settle_seconds"]
        if waited >= patience or all(state == "idle none" for state in found.values()):
            return found
        time.sleep(0.5)


def read_states(api: Api, request: Object) -> dict[str, str]:
    """Return the current state of each node; a node that the cluster does not have is missing."""
    pods = api.get("/api/v1/pods?fieldSelector=status.phase!=Succeeded,status.phase!=Failed")["items"]
    nodes = {node["metadata"]["name"]: node for node in api.get("/api/v1/nodes")["items"]}
    return {name: state(nodes[name], request["taints"].get(name, ()), pods) for name in request["nodes"] if name in nodes}


def state(node: Object, planned: Sequence[str], pods: Sequence[Object]) -> str:
    """Return the state of one node: whether it accepts pods, and which other pods hold its GPUs."""
    name, conditions = node["metadata"]["name"], {one["type"]: one for one in node["status"].get("conditions") or []}
    ready = conditions.get("Ready") or {}
    if ready.get("status") != "True":
        return "down not ready: " + (ready.get("message") or "its kubelet posts no status")
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
    others = sorted(
        {pod["metadata"]["namespace"] + "/" + pod["metadata"]["name"] for pod in here if gpus_of(pod) and not belongs_to_run(pod)}
    )
    if others:
        return "allocated GPUs of " + ", ".join(others)
    return "completing none" if any(map(belongs_to_run, here)) else "idle none"


def belongs_to_run(pod: Object) -> bool:
    """Return whether an acceptance run created the pod."""
    return RUN in (pod["metadata"].get("labels") or {})


def begin(_asked: Sequence[Object]) -> None:
    """Do nothing: no jobs are submitted from here."""


def end() -> None:
    """Do nothing: no object was created."""
