"""Run on the node from which pods are created, as an ordinary user: one request about a training run on Kubernetes.

Input: {"action": "begin", "folder", "files": {path: text}, "needed_mib", "objects": [object]}: create the folder, write the files, create
the objects: a TrainingRuntime and a TrainJob.
{"action": "follow", "folder", "namespace", "name", "offsets": {file: bytes}}: return the new lines of event files, and the pods.
{"action": "cancel", "namespace", "name"}: delete the objects; their pods follow.
Output: a line of JSON; "error" is a text if the request failed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rackwright.remote.programs import training_run
from rackwright.remote.programs.kubernetes_client import Api, ApiRefusedError
from rackwright.remote.programs.kubernetes_jobs import HOPELESS

Object = dict[str, Any]
KINDS = {"TrainingRuntime": "trainingruntimes", "TrainJob": "trainjobs"}
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
INDEX = "batch.kubernetes.io/job-completion-index"


def client() -> Api:
    """Return a client of the API with the user's credentials."""
    return Api(os.path.join(os.environ["HOME"], ".kube", "config"))


def path(namespace: str, kind: str, name: str = "") -> str:
    """Return the path of an object of Trainer, or of all of a kind."""
    return "/apis/trainer.kubeflow.org/v1alpha1/namespaces/" + namespace + "/" + KINDS[kind] + ("/" + name if name else "")


def begin(api: Api, request: Mapping[str, Any]) -> Object:
    """Create the run's folder and its objects. If one is refused, delete those before it."""
    free_mib, is_ready = training_run.prepare_folder(request)
    if not is_ready:
        return {"error": "", "free_mib": free_mib, "job": None}
    try:
        for one in request["objects"]:
            create(api, path(request["namespace"], one["kind"]), one)
    except ApiRefusedError as refused:
        cancel(api, request)
        return {"error": str(refused), "free_mib": free_mib, "job": None}
    return {"error": "", "free_mib": free_mib, "job": request["name"], "submitted": time.time()}


def create(api: Api, where: str, one: Object) -> None:
    """Create an object. Trainer's webhook may not know yet of the runtime that was created just before."""
    for rest in range(10, -1, -1):
        try:
            api.post(where, one)
            return
        except ApiRefusedError as refused:
            if not rest or "must be created before" not in str(refused):
                raise
            time.sleep(0.5)


def follow(api: Api, request: Mapping[str, Any]) -> Object:
    """Return what happened since the last request. A run that cannot go on gets the event that ends it."""
    pods = listed(api, request)
    finished, message = outcome(api, request)
    rows = [row(pod) for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    hopeless = next((one["reason"] for one in rows if one["reason"].split(":")[0] in HOPELESS), "")
    if finished == "Failed" or hopeless:
        give_up(request, pods, hopeless or message)
    elif not rows and not finished:
        rows = [{"id": request["name"], "state": "PENDING", "reason": "no pod yet", "nodes": ""}]
    lines, offsets = training_run.read(request["folder"], request["offsets"])
    for line in lines:
        if line.get("event") == "begin" and not line.get("nodes"):
            line["nodes"] = nodes_of(pods, str(line["attempt"]))
    return {"error": "", "jobs": rows, "released": [], "lines": lines, "offsets": offsets, "now": time.time()}


def listed(api: Api, request: Mapping[str, Any]) -> list[Object]:
    """Return the pods of the run in the order of their index."""
    query = "/pods?labelSelector=jobset.sigs.k8s.io%2Fjobset-name%3D" + request["name"]
    found: list[Object] = api.get("/api/v1/namespaces/" + request["namespace"] + query)["items"]
    return sorted(found, key=lambda pod: int(pod["metadata"].get("annotations", {}).get(INDEX, 0)))


def outcome(api: Api, request: Mapping[str, Any]) -> tuple[str, str]:
    """Return Complete or Failed with its message; two empty texts while the TrainJob runs."""
    try:
        found = api.get(path(request["namespace"], "TrainJob", request["name"]))
    except ApiRefusedError as refused:
        if refused.status != 404:
            raise
        return "Deleted", "the TrainJob was deleted"
    for one in found.get("status", {}).get("conditions", ()):
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return one["type"], one.get("message", "")
    return "", ""


def row(pod: Object) -> dict[str, str]:
    """Return a pod as it is shown: why it does not run, and where it is."""
    reason = ""
    for one in pod["status"].get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            reason = ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    for one in pod["status"].get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            reason = one.get("message") or one.get("reason") or ""
    state = "TERMINATING" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", "Pending").upper()
    return {"id": pod["metadata"]["name"], "state": state, "reason": reason, "nodes": pod["spec"].get("nodeName", "")}


def nodes_of(pods: Sequence[Object], attempt: str) -> str:
    """Return the nodes of an attempt's pods, in the order of the pods' indices."""
    own = [pod for pod in pods if pod["metadata"]["labels"].get(ATTEMPT) == attempt]
    return ",".join(pod["spec"]["nodeName"] for pod in own if pod["spec"].get("nodeName"))


def give_up(request: Mapping[str, Any], pods: Sequence[Object], reason: str) -> None:
    """Write the event that ends the run, once, and why, at the end of the output."""
    file = os.path.join(request["folder"], "gave-up.jsonl")
    if os.path.exists(file):
        return
    attempts = [int(pod["metadata"]["labels"].get(ATTEMPT, 0)) for pod in pods]
    attempt = str(max(attempts, default=0))
    event = {"event": "gave-up", "attempt": attempt, "time": round(time.time(), 3), "job": request["name"], "nodes": ""}
    output = os.path.join(request["folder"], "output.txt")
    if reason and not training_run.tail(request["folder"]):
        with open(output, "a", encoding="utf-8") as text:
            text.write(reason + "\n")
    with open(file + ".new", "w", encoding="utf-8") as written:
        written.write(json.dumps(event) + "\n")
    os.replace(file + ".new", file)


def cancel(api: Api, request: Mapping[str, Any]) -> None:
    """Delete the TrainJob with its pods, then the runtime, which Trainer keeps while a TrainJob refers to it."""
    for kind in ("TrainJob", "TrainingRuntime"):
        api.delete(path(request["namespace"], kind, request["name"]))


def main(request: Object) -> Object:
    """Answer one request; an error is an answer, too."""
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    try:
        if request["action"] == "output":
            return {"error": "", "text": training_run.tail(request["folder"])}
        if request["action"] == "newest":
            return {"error": "", "found": training_run.newest(request["folders"])}
        api = client()
        if request["action"] == "begin":
            return begin(api, request)
        if request["action"] == "follow":
            return follow(api, request)
        cancel(api, request)
        return {"error": ""}
    except (OSError, ValueError, KeyError, ApiRefusedError, http.client.HTTPException) as error:
        return {"error": str(error) or repr(error)}
