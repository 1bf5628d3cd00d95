"""Run on the node, imported by smoke_pods: the checks that a smoke run of pods makes on a node or a namespace.

Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import Api, ApiRefusedError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

BEHIND = 3
"""Pods behind the service: each additional pod makes it less likely that a few calls reach all of them."""
CALLS = 30
"""Calls of the service from one pod until all pods have responded: of three, one is missed by chance once in 60 000 times."""
POD_START_TIMEOUT = 45
"""Seconds a pod may take to run: ten at once on two busy cores took up to 16 (measured 2026-11-22), and a kubelet whose API server was away
retries after pauses that grow to 30 (client-go, tools/cache/reflector.go)."""
KNOWN = 45
"""Seconds after which name servers and every node's kube-proxy know a service and its pods: they watch the API as kubelets do."""
LATEST = ("--timeout", f"{3 * manifests.SLOWNESS}s")
"""Seconds that the probe in a pod waits for a single response; less than a command in a pod may take (Run.inside)."""
SOON = ("--timeout", f"{2 * manifests.SLOWNESS}s")
"""The same for requests that are repeated, or that must not be answered."""
LISTENING = 15
"""Seconds within which a running pod must accept connections: Running means that its program was started. On a busy node a pod was running
and did not listen yet (measured 2026-11-28)."""
MAX_PODS = 64
"""Number of pods up to which a quota that counts only pods is filled for the test."""
_ALL = 8
"""Number of nodes up to which each node queries every other."""


def peers(place: int, count: int) -> list[int]:
    """Return the peers of the node at a place: all others if they are few, else those at distances of powers of two in both directions.

    >>> peers(1, 4), len(peers(0, 64))
    ([0, 2, 3], 11)
    """
    if count <= _ALL + 1:
        return [index for index in range(count) if index != place]
    steps = [2**power for power in range(count.bit_length()) if 2**power < count]
    near = {(place + step) % count for step in steps} | {(place - step) % count for step in steps}
    return sorted(near - {place})


def seen(pod: Object | None) -> Object:
    """Return a summary of a pod: its node, its phase, and why it went no further."""
    if pod is None:
        return {"node": None, "phase": None, "why": "it is gone", "uid": None}
    status = pod.get("status") or {}
    return {
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "why": why(status),
        "uid": pod["metadata"]["uid"],
        "seconds": POD_START_TIMEOUT * manifests.SLOWNESS,
    }


def why(status: Object) -> str:
    """Return what keeps a pod from running, as reported by the component that blocks it."""
    messages = [": ".join(filter(None, (status.get("reason"), status.get("message"))))] if status.get("message") else []
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}).values():
            if state.get("reason") not in (None, "Completed", "ContainerCreating"):
                messages.append(": ".join(filter(None, (state["reason"], state.get("message")))))
    messages += [one["message"] for one in status.get("conditions") or [] if one["type"] == "PodScheduled" and one["status"] == "False"]
    return "; ".join(messages)[:400]


def phase(pods: dict[str, Object], name: str) -> Any:
    """Return the phase of a pod."""
    return ((pods.get(name) or {}).get("status") or {}).get("phase")


def waiting(pods: dict[str, Object], name: str) -> str:
    """Return why the scheduler has no node for a pod; empty if it has one, or has not tried yet."""
    conditions = ((pods.get(name) or {}).get("status") or {}).get("conditions") or []
    found = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return found[0].get("message") or "no reason given" if found and found[0].get("reason") == "Unschedulable" else ""


def plain(run: Run, node: Object) -> Object:
    """Run a pod without resource requests to its end; return its environment, its node and its log."""
    name = "plain-" + node["name"]
    refused = run.make(manifests.pod(name, ["devices"], run.request, node))
    run.until(lambda pods: phase(pods, name) in ("Succeeded", "Failed"), 0 if refused else POD_START_TIMEOUT)
    result = seen(run.pods.get(name))
    log = run.log(name) if result["phase"] in ("Running", "Succeeded", "Failed") else {"text": "", "said": "it never ran"}
    run.drop(name)
    return dict(result, why=refused or result["why"], log=log)


def network(run: Run, node: Object, others: Sequence[str], behind: set[str], service: Object, outside: Future[Any]) -> Object:
    """Run a pod that serves requests; return what it reaches from its node."""
    name = "answers-" + node["name"]
    labels = {"answers": "yes"} if name in behind else None
    refused = run.make(manifests.pod(name, ["serve"], run.request, node, labels=labels))
    if refused or not run.until(lambda pods: address(pods, name), POD_START_TIMEOUT):
        return {"pod": dict(seen(run.pods.get(name)), **({"why": refused} if refused else {}))}
    result = {"pod": seen(run.pods.get(name)), "version": run.inside(name, ["version"])}
    result["reach"] = {other: reach(run, name, "answers-" + other) for other in others}
    knows = time.monotonic() + run.left(KNOWN)
    result["names"] = {one: resolve(run, name, one, knows) for one in ("answers", "kubernetes.default")}
    if outside.result():
        known = outside.result()["name"].rstrip(".") + "."
        result["outside"] = resolve(run, name, known, knows if any(outside.result()["servers"].values()) else 0)
        # CoreDNS caches a response for 30 s; a name that was never queried must be forwarded.
        result["unheard"] = run.inside(name, ["lookup", *LATEST, f"{run.request['token']}-{node['name']}.{known}"])
    result["service"] = calls(run, name, service["clusterIP"], behind)
    return result


def resolve(run: Run, name: str, wanted: str, knows: float) -> Object:
    """Resolve a name in a pod; retry until a deadline if there is no response."""
    result = run.inside(name, ["lookup", *LATEST, wanted])
    while result["rc"] not in (0, None) and time.monotonic() < knows:
        time.sleep(0.3)
        result = run.inside(name, ["lookup", *LATEST, wanted])
    return result


def address(pods: dict[str, Object], name: str) -> Any:
    """Return the address of a pod; empty before it has one."""
    return ((pods.get(name) or {}).get("status") or {}).get("podIP") if phase(pods, name) == "Running" else ""


def reach(run: Run, name: str, other: str) -> Object:
    """Request one pod from another by its address; rc is None if the other pod does not run. Retry while the other pod does not listen."""
    if not run.until(lambda pods: address(pods, other), POD_START_TIMEOUT):
        return {"rc": None, "out": "", "said": "no pod runs there"}
    listens = time.monotonic() + run.left(LISTENING)
    while True:
        result = run.inside(name, ["get", *LATEST, f"http://{address(run.pods, other)}:{manifests.PORT}/"])
        if "connection refused" not in result["said"] or time.monotonic() > listens:
            return result
        time.sleep(0.3)


def calls(run: Run, name: str, where: str, behind: set[str]) -> Object:
    """Call the service's address until all pods behind it have responded, or often enough."""
    run.until(lambda pods: all(address(pods, one) for one in behind), POD_START_TIMEOUT)
    message, attempts, knows = "", 0, time.monotonic() + run.left(KNOWN)
    found: set[str] = set()
    while attempts < CALLS or time.monotonic() < knows:
        attempts += 1
        result = run.inside(name, ["get", *SOON, f"http://{where}:{manifests.PORT}/"])
        found |= {result["out"].strip()} if result["rc"] == 0 else set()
        message = message if result["rc"] == 0 else result["said"]
        if found >= behind or result["rc"] is None or (message and time.monotonic() > knows):
            break
        time.sleep(0.2 if result["rc"] else 0)
    running = sorted(one for one in behind if address(run.pods, one))
    return {"found": sorted(found), "behind": running, "said": message, "rc": result["rc"]}


def port(run: Run, where: str, number: int, behind: set[str]) -> Object:
    """Return which pods responded on the service's port of a node, called from here; and the errors after kube-proxy knew the service."""
    run.until(lambda pods: all(address(pods, one) for one in behind), POD_START_TIMEOUT)
    running = {one for one in behind if address(run.pods, one)}
    message, calls, knows = "", 0, time.monotonic() + run.left(KNOWN)
    found: set[str] = set()
    while running - found and (calls < CALLS or time.monotonic() < knows) and not (message and time.monotonic() > knows):
        calls += 1
        try:
            with OPENER.open(f"http://{where}:{number}/", timeout=2 * manifests.SLOWNESS) as answer:
                found.add(answer.read().decode("utf-8", "replace"))
        except OSError as error:
            message = str(getattr(error, "reason", error))
        time.sleep(0.2 if message else 0.05)
    return {"found": sorted(found), "behind": sorted(running), "said": message}


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opener without a proxy: the request goes to a node, and the response must be its own."""


def claimed(run: Run) -> str:
    """Create a folder on the shared file system and a claim on it; return why the claim is not bound."""
    os.mkdir(run.folder)
    os.chmod(run.folder, 0o1777)
    volumes, claims = "/api/v1/persistentvolumes", run.path + "/persistentvolumeclaims"
    # In this order, and one step at a time: if both bind at once, the two workers of the control plane conflict
    # and retry only a quarter of a minute later.
    uid = run.api.post(claims, manifests.claim(run.namespace))["metadata"]["uid"]
    run.api.post(volumes, manifests.volume(run.namespace, run.folder, run.namespace, uid))
    if not _becomes_bound(run, volumes + "/" + run.namespace):
        return "the control plane does not bind the volume"
    run.api.touch(claims + "/shared")
    return "" if _becomes_bound(run, claims + "/shared") else "the claim is not bound"


def _becomes_bound(run: Run, path: str) -> bool:
    """Return whether a volume or a claim is bound in time."""
    ends = time.monotonic() + run.left(8)
    while time.monotonic() < ends:
        if (run.api.get(path).get("status") or {}).get("phase") == "Bound":
            return True
        time.sleep(0.1)
    return False


def storage(run: Run, node: Object, neighbour: str, claim: Future[str]) -> Object:
    """Run a pod with the claim: it writes its own file and reads its neighbour's."""
    name, text = "shared-" + node["name"], "written on "
    planned = text + neighbour
    refused = claim.result() or run.make(manifests.pod(name, ["sleep", "60"], run.request, node, claim="shared"))
    if refused or not run.until(lambda pods: phase(pods, name) == "Running", POD_START_TIMEOUT):
        return {"pod": dict(seen(run.pods.get(name)), **({"why": refused} if refused else {}))}
    wrote = run.inside(name, ["write", "/shared/from-" + node["name"], text + node["name"]])
    result: Object = {"rc": None, "out": "", "said": "its neighbour wrote nothing"}
    run.until(lambda pods: phase(pods, "shared-" + neighbour) == "Running", POD_START_TIMEOUT)
    ends = time.monotonic() + run.left(8)
    while wrote["rc"] == 0 and time.monotonic() < ends:
        result = run.inside(name, ["read", "/shared/from-" + neighbour])
        if result["rc"] is None or result["out"].strip() == planned:
            break
        time.sleep(0.3)
    return {"pod": seen(run.pods.get(name)), "wrote": wrote, "read": result, "neighbour": neighbour, "planned": planned}


def gpus(run: Run, node: Object) -> Object:
    """Run two pods that take all GPUs of a node, and one that must wait for them; then one that has all GPUs."""
    requested = {"first": node["first"], "second": node["gpus"] - node["first"]}
    names = {part: part + "-" + node["name"] for part in (*requested, "excess", "whole") if requested.get(part, 1)}
    held = [names[part] for part in requested if part in names]
    refused = {part: run.make(_gpu_pod(run, node, names[part], requested[part])) for part in requested if part in names}
    run.until(lambda pods: all(phase(pods, one) not in (None, "Pending") or waiting(pods, one) for one in held), POD_START_TIMEOUT)
    # The scheduler may not know yet of a device that was just released.
    run.until(lambda pods: all(phase(pods, one) == "Running" for one in held), 4)
    result = {part: _given(run, names[part], requested[part], refused[part]) for part in requested if part in names}
    result["excess"] = _start_excess(run, node, names["excess"], held)
    dropped = run.drop(*held, names["excess"])
    result["whole"] = (
        _run_with_all(run, node, names["whole"]) if dropped else {"asked": node["gpus"], "why": "the pods before it do not end"}
    )
    return result


def _gpu_pod(run: Run, node: Object, name: str, count: int) -> Object:
    return manifests.pod(name, ["sleep", "60"], run.request, node, gpus=count)


def _given(run: Run, name: str, count: int, refused: str) -> Object:
    """Return the GPUs that a running pod reports."""
    result = seen(run.pods.get(name))
    if result["phase"] != "Running":
        return dict(result, asked=count, why=refused or result["why"])
    return dict(result, asked=count, devices=run.inside(name, ["devices"]))


def _start_excess(run: Run, node: Object, name: str, held: Sequence[str]) -> Object:
    """Start one pod more than there are GPUs for; return the scheduler's message."""
    if not all(phase(run.pods, one) == "Running" for one in held):
        return {"taken": False}
    refused = run.make(_gpu_pod(run, node, name, 1))
    run.until(lambda pods: waiting(pods, name) or phase(pods, name) not in (None, "Pending"), 0 if refused else 5)
    taken = all(phase(run.pods, one) == "Running" for one in held)
    return dict(seen(run.pods.get(name)), taken=taken, waits=refused or waiting(run.pods, name))


def _run_with_all(run: Run, node: Object, name: str) -> Object:
    """Run one pod with all GPUs of the node to its end."""
    refused = run.make(manifests.pod(name, ["devices"], run.request, node, gpus=node["gpus"]))
    run.until(lambda pods: phase(pods, name) in ("Succeeded", "Failed"), 0 if refused else POD_START_TIMEOUT)
    result = seen(run.pods.get(name))
    return dict(result, asked=node["gpus"], why=refused or result["why"], log=run.log(name) if result["phase"] == "Succeeded" else None)


def namespace(run: Run, planned: Object, account: Callable[[Api, str], None]) -> Object:
    """Copy a namespace of the plan; return what its quota and pod security level admit. No pod in the copy ever runs."""
    name = (run.namespace + "-" + planned["name"])[:63].rstrip("-")
    labels = dict(planned["labels"], **run.own)
    run.api.post("/api/v1/namespaces", manifests.namespace(name, labels))
    path = "/api/v1/namespaces/" + name
    result: Object = {"over": {}, "within": None, "privileged": None}
    account(run.api, name)
    if planned["level"] != "privileged":
        result["privileged"] = sent(run, path, manifests.admitted("privileged", run.request, privileged=True))
    if planned["hard"]:
        run.api.post(path + "/resourcequotas", manifests.quota(planned["hard"]))
        ends = time.monotonic() + run.left(6)
        while not run.api.get(path + "/resourcequotas/quota").get("status", {}).get("hard") and time.monotonic() < ends:
            time.sleep(0.1)
        result["within"] = sent(run, path, manifests.admitted("within", run.request))
        for key, requests in manifests.beyond(planned["hard"]).items():
            result["over"][key] = sent(run, path, manifests.admitted("over-{}".format(len(result["over"])), run.request, requests))
        if not result["over"]:
            result["over"] = {key: _fill(run, path, int(value)) for key, value in planned["hard"].items() if int(value) <= MAX_PODS}
    return result


def _fill(run: Run, path: str, room: int) -> Object:
    """Fill a namespace with pods that never run and add one more; the pod of the level test already uses one place."""
    for number in range(1, room):
        result = sent(run, path, manifests.admitted(f"fills-{number}", run.request))
        if not result["taken"]:
            return dict(result, said="pod {} of {}: {}".format(number + 1, room, result["said"]))
    return sent(run, path, manifests.admitted("over", run.request))


def sent(run: Run, path: str, pod: Object) -> Object:
    """Return whether the API admits a pod, and its message if it does not."""
    try:
        run.api.post(path + "/pods", pod)
    except ApiRefusedError as refused:
        return {"taken": False, "status": refused.status, "said": str(refused)}
    return {"taken": True, "status": 201, "said": ""}
