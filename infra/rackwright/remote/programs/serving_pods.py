"""Run on the node from which pods are created, as an ordinary user: one request about a model server on Kubernetes.

Input: {"action": "checkpoints", "folders"}: return the first folder that holds a checkpoint, and its checkpoints, the newest first.
{"action": "begin", "folder", "files": {path: text}, "needed_mib", "namespace", "name", "objects": [object]}: create the folder, the files
and the objects.
{"action": "observe", "folder", "namespace", "name", "offsets"}: return the Deployment, its pods with their metrics, and new events.
{"action": "load", "folder", "load"}: replace load.json.
{"action": "scale", "namespace", "name", "replicas"}, {"action": "update", "namespace", "name", "container", "environment"}.
{"action": "cancel", "namespace", "name", "objects": [{kind, name}]}: delete the objects; return the pods that are left.
Output: a line of JSON; "error" is a text if the request failed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import concurrent.futures
import glob
import http.client
import json
import os
import pwd
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rackwright.remote.programs import training_run
from rackwright.remote.programs.job_submission import write
from rackwright.remote.programs.kubernetes_client import Api, ApiRefusedError
from rackwright.remote.programs.kubernetes_jobs import HOPELESS

Object = dict[str, Any]
PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects",
    "Service": "/api/v1/namespaces/{}/services",
}
RUN = "rackwright/run"
"""Label of all pods of a run; those of the Deployment have `rackwright/role: server`."""
ROLE = "rackwright/role"
PORT = 8000
"""Port of the server's API, that of `vllm serve` (--port)."""
GAUGES = ("vllm:num_requests_waiting", "vllm:num_requests_running")
INFO = "rackwright_model_server_info"
SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def client() -> Api:
    """Return a client of the API with the user's credentials."""
    return Api(os.path.join(os.environ["HOME"], ".kube", "config"))


def path(request: Mapping[str, Any], kind: str, name: str = "") -> str:
    """Return the path of an object in the namespace of the request, or of all of a kind."""
    return PATHS[kind].format(request["namespace"]) + ("/" + name if name else "")


def checkpoints(folders: Sequence[str]) -> tuple[str, list[str]]:
    """Return the first folder with a checkpoint, and the names of its checkpoints, the newest first."""
    found = training_run.newest(folders)
    names = glob.glob(os.path.join(glob.escape(found), "step-*", "manifest.json")) if found else []
    return found, sorted((os.path.basename(os.path.dirname(one)) for one in names), reverse=True)


def begin(api: Api, request: Mapping[str, Any]) -> Object:
    """Create the run's folder and its objects. If one is refused, delete those before it."""
    free_mib, is_ready = training_run.prepare_folder(request)
    if not is_ready:
        return {"error": "", "free_mib": free_mib, "created": False}
    for one in request["objects"]:
        try:
            api.post(path(request, one["kind"]), one)
        except ApiRefusedError as refused:
            delete(api, request)
            return {"error": one["kind"] + ": " + str(refused), "free_mib": free_mib, "created": False}
    return {"error": "", "free_mib": free_mib, "created": True}


def observe(api: Api, request: Mapping[str, Any]) -> Object:
    """Return the Deployment, its pods with their metrics, the load's pod, and what the load wrote since the last request."""
    deployment = api.get(path(request, "Deployment", request["name"]))
    pods = listed(api, request)
    servers = [one for one in pods if one["metadata"]["labels"].get(ROLE) == "server"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        rows = list(pool.map(lambda one: row(api, request, one), servers))
    lines, offsets = training_run.read(request["folder"], request["offsets"])
    load = next((one for one in pods if one["metadata"]["labels"].get(ROLE) == "load"), None)
    return {
        "error": "",
        "now": time.time(),
        "replicas": deployment["spec"]["replicas"],
        "is_rolled_out": is_rolled_out(deployment, servers),
        "pods": rows,
        "load": row_of_load(load) if load else None,
        "lines": lines,
        "offsets": offsets,
    }


def listed(api: Api, request: Mapping[str, Any]) -> list[Object]:
    """Return the pods of the run."""
    query = "?labelSelector=rackwright%2Frun%3D" + request["name"]
    found: list[Object] = api.get(path(request, "Pod") + query)["items"]
    return found


def is_rolled_out(deployment: Object, servers: Sequence[Object]) -> bool:
    """Return whether all pods are of the newest revision, ready, and no other pod is left (kubectl rollout status, and its last step)."""
    wanted, status = deployment["spec"]["replicas"], deployment.get("status", {})
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == status.get("availableReplicas", 0) == status.get("replicas", 0) == wanted
        and len(servers) == wanted
    )


def row(api: Api, request: Mapping[str, Any], pod: Object) -> Object:
    """Return a pod of the server: its state, why it does not run, and its metrics, if it answers."""
    name, status = pod["metadata"]["name"], pod["status"]
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    ending = bool(pod["metadata"].get("deletionTimestamp"))
    found: Object = {"name": name, "node": pod["spec"].get("nodeName", ""), "ready": ready and not ending, "ending": ending}
    containers = status.get("containerStatuses") or ()
    found.update(reason=reason(pod), restarts=sum(one.get("restartCount", 0) for one in containers), waiting=None, running=None, facts={})
    if ready or ending:
        try:
            text = api.get(path(request, "Pod", name + ":" + str(PORT)) + "/proxy/metrics")
            found.update(metrics(text))
        except (OSError, ApiRefusedError, http.client.HTTPException):
            pass  # A pod that ends does not answer.
    return found


def reason(pod: Object) -> str:
    """Return why a pod does not run: its scheduling, its image, or the end of its container."""
    for one in pod["status"].get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return one.get("message") or one.get("reason") or ""
    for one in pod["status"].get("containerStatuses") or ():
        state = one.get("state") or {}
        waits = state.get("waiting") or {}
        if waits.get("reason") in HOPELESS or waits.get("reason") == "CrashLoopBackOff":
            return ": ".join(filter(None, (waits["reason"], waits.get("message"))))
        ended = state.get("terminated") or {}
        if ended.get("exitCode"):
            return "its container ended with " + str(ended["exitCode"])
    return ""


def row_of_load(pod: Object) -> Object:
    """Return the state of the pod that sends requests."""
    why = reason(pod)
    return {"phase": pod["status"].get("phase", "Pending"), "reason": why, "is_hopeless": why.split(":")[0] in HOPELESS}


def metrics(text: str) -> Object:
    """Return the requests that wait and run, and what serves. Whole names: newer releases have longer names with the same start."""
    found: Object = {"waiting": None, "running": None, "facts": {}}
    for line in text.splitlines():
        matched = SAMPLE.fullmatch(line)
        if not matched:
            continue
        if matched[1] in GAUGES:
            key = matched[1].rpartition("_")[2]
            found[key] = (found[key] or 0) + int(float(matched[3]))  # One for each engine.
        elif matched[1] == INFO:
            found["facts"] = dict(LABEL.findall(matched[2] or ""))
    return found


def update(api: Api, request: Mapping[str, Any]) -> None:
    """Change environment variables of the pods, which creates a new revision."""
    variables = [{"name": name, "value": value} for name, value in request["environment"].items()]
    container = {"name": request["container"], "env": variables}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    api.call("PATCH", path(request, "Deployment", request["name"]), change, "application/strategic-merge-patch+json")


def scale(api: Api, request: Mapping[str, Any]) -> None:
    """Set the number of replicas."""
    change = {"spec": {"replicas": request["replicas"]}}
    api.call("PATCH", path(request, "Deployment", request["name"]) + "/scale", change, "application/merge-patch+json")


def delete(api: Api, request: Mapping[str, Any]) -> None:
    """Delete the objects, the last one first."""
    for one in reversed(request["objects"]):
        api.delete(path(request, one["kind"], one["metadata"]["name"]))


def act(api: Api, request: Mapping[str, Any]) -> Object:
    """Answer a request that needs the API."""
    if request["action"] == "begin":
        return begin(api, request)
    if request["action"] == "observe":
        return observe(api, request)
    if request["action"] == "cancel":
        delete(api, request)
        return {"error": "", "left": [one["metadata"]["name"] for one in listed(api, request)]}
    {"scale": scale, "update": update}[request["action"]](api, request)
    return {"error": ""}


def main(request: Object) -> Object:
    """Answer one request; an error is an answer, too."""
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    try:
        if request["action"] == "checkpoints":
            found, names = checkpoints(request["folders"])
            return {"error": "", "found": found, "checkpoints": names}
        if request["action"] == "load":
            write(request["folder"], {"load.json": json.dumps(request["load"])})
            return {"error": ""}
        return act(client(), request)
    except (OSError, ValueError, KeyError, ApiRefusedError, http.client.HTTPException) as error:
        return {"error": str(error) or repr(error)}
