"""Run on the node, imported by smoke_pods: run a PyTorchJob of one master and one worker, with a small program in place of PyTorch.

Python 3.9, standard library only.
"""

from __future__ import annotations

import json
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

NAME = "training"
PODS = {"master": NAME + "-master-0", "worker": NAME + "-worker-0"}
"""Names that the operator gives to the pods: <job>-<replica type>-<index> (pkg/controller.v1/common, GenGeneralName)."""
CONTAINER = "pytorch"
"""Name that its webhook demands of the container (PyTorchJobDefaultContainerName)."""
OVER = ("Succeeded", "Failed")
"""Phases of a pod that has ended, and conditions of a job that has (pkg/apis/kubeflow.org/v1/common_types.go)."""
_OWNERS = ("PyTorchJob",)


def path(namespace: str) -> str:
    """Return the path of the job in a namespace."""
    return "/apis/kubeflow.org/v1/namespaces/" + namespace + "/pytorchjobs"


def manifest(request: Object, master: Object, worker: Object, patience: Object) -> Object:
    """Return a job of two pods, each on its node, whose programs wait for each other for these seconds."""
    replicas = {
        "Master": _replica(request, master, patience["master"]),
        "Worker": _replica(request, worker, patience["worker"]),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": NAME, "labels": dict(manifests.OWNER)},
        # Ended pods stay until their logs are read.
        "spec": {"nprocPerNode": "1", "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0}, "pytorchReplicaSpecs": replicas},
    }


def _replica(request: Object, node: Object, patience: float) -> Object:
    spec = manifests.pod("", [], request, node)["spec"]
    del spec["restartPolicy"]  # the operator sets it
    command = ["python3", "-I", "-c", request["training"]["program"], str(round(patience))]
    spec["containers"] = [{"name": CONTAINER, "image": request["training"]["image"], "imagePullPolicy": "IfNotPresent", "command": command}]
    template = {"metadata": {"labels": dict(manifests.OWNER)}, "spec": spec}
    return {"replicas": 1, "restartPolicy": "Never", "template": template}


def training(run: Run, nodes: Sequence[Object]) -> Object:
    """Run the job to its end, read what its containers were given and met, and delete it."""
    # The master may start before the worker by the time that a pod may take.
    patience = {"master": run.left(checks.POD_START_TIMEOUT + checks.KNOWN), "worker": run.left(checks.KNOWN)}
    try:
        run.api.post(path(run.namespace), manifest(run.request, nodes[0], nodes[-1], patience))
    except ApiRefusedError as refused:
        return {"refused": str(refused), "pods": {}, "ranks": {}, "ended": ""}
    # The operator may create the pods, but not the Service with the master's name: then they cannot meet either.
    failure = pod_owners.await_pods(run, _are_created, _OWNERS, checks.POD_START_TIMEOUT) or pod_owners.await_pods(
        run, _are_over, _OWNERS, checks.POD_START_TIMEOUT + checks.KNOWN
    )
    found = {rank: _seen(run, name, failure) for rank, name in PODS.items()}
    ranks = {rank: _printed(run, name) for rank, name in PODS.items() if found[rank]["phase"] in OVER}
    ended = _condition(run) if ranks else ""
    run.api.delete(path(run.namespace) + "/" + NAME)
    run.until(lambda pods: not set(PODS.values()) & set(pods), 10)
    return {"refused": "", "pods": found, "ranks": ranks, "ended": ended}


def _are_created(pods: dict[str, Object]) -> bool:
    return all(name in pods for name in PODS.values())


def _are_over(pods: dict[str, Object]) -> bool:
    """Return whether all have ended, or one has failed: the other one waits for it."""
    phases = [checks.phase(pods, name) for name in PODS.values()]
    return "Failed" in phases or all(one in OVER for one in phases)


def _seen(run: Run, name: str, failure: str) -> Object:
    """Return a summary of a pod; of one that does not exist or has not ended, what the operator could not create."""
    pod = run.pods.get(name)
    if not pod:
        return pod_owners.not_created(run, _OWNERS, failure)
    found = checks.seen(pod)
    return dict(found, why=failure) if failure and found["phase"] not in OVER else found


def _printed(run: Run, name: str) -> Object:
    """Return the document that a container printed; without one, what it printed instead."""
    log = run.log(name)
    try:
        found: Object = json.loads(log["text"].strip().splitlines()[-1])
        return {"given": found["given"], "met": found["met"], "said": found["said"]}
    except (ValueError, IndexError, KeyError, TypeError):
        return {"given": None, "met": [], "said": (log["said"] or log["text"].strip() or "it printed nothing")[-300:]}


def _condition(run: Run) -> str:
    """Return the condition that ends the job; empty if the operator sets none in time."""
    ends = time.monotonic() + run.left(10)
    while True:
        status = run.api.get(path(run.namespace) + "/" + NAME).get("status") or {}
        for one in status.get("conditions") or []:
            if one["type"] in OVER and one["status"] == "True":
                return str(one["type"])
        if time.monotonic() > ends:
            return ""
        time.sleep(0.3)
