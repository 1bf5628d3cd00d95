"""Run on the node, imported by smoke_pods: what a smoke run of pods asks of a node or a namespace, and the answers.

Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import Api, Refused

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

BEHIND = 3
"""Pods behind the service: each more makes it less likely that a few calls meet all of them."""
CALLS = 30
"""Calls of the service from one pod until it has met all: of three, one is missed by chance once in 60 000 times."""
AT_MOST = 45
"""Seconds a pod may take to run: ten at once on two busy cores took up to 16 (measured 2026-11-22), and a kubelet whose API server was away
asks again after pauses that grow to 30 (client-go, tools/cache/reflector.go)."""
KNOWN = 45
"""Seconds after which name servers and every node's kube-proxy know of a service and of its pods: they watch as kubelets do."""
LATEST = ("--timeout", f"{3 * manifests.SLOWNESS}s")
"""How long the probe in a pod waits for an answer that it asks for once; less than a command in a pod may take (Run.inside)."""
SOON = ("--timeout", f"{2 * manifests.SLOWNESS}s")
"""The same where it asks over and over, or hopes for silence."""
MOST_PODS = 64
"""Pods up to which a quota that counts nothing else is filled up to be tried."""
_ALL = 8
"""Nodes up to which each asks every other."""


def peers(place: int, count: int) -> list[int]:
    """Whom the node at a place asks: all others where they are few, else those at distances of powers of two, to both sides.

    >>> peers(1, 4), len(peers(0, 64))
    ([0, 2, 3], 11)
    """
    if count <= _ALL + 1:
        return [index for index in range(count) if index != place]
    steps = [2**power for power in range(count.bit_length()) if 2**power < count]
    near = {(place + step) % count for step in steps} | {(place - step) % count for step in steps}
    return sorted(near - {place})


def seen(pod: Object | None) -> Object:
    """A pod in short: where it is, how far it came, and why no further."""
    if pod is None:
        return {"node": None, "phase": None, "why": "it is gone", "uid": None}
    status = pod.get("status") or {}
    return {
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "why": why(status),
        "uid": pod["metadata"]["uid"],
        "seconds": AT_MOST * manifests.SLOWNESS,
    }


def why(status: Object) -> str:
    """What keeps a pod from running, in the words of whoever knows."""
    said = [": ".join(filter(None, (status.get("reason"), status.get("message"))))] if status.get("message") else []
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}).values():
            if state.get("reason") not in (None, "Completed", "ContainerCreating"):
                said.append(": ".join(filter(None, (state["reason"], state.get("message")))))
    said += [one["message"] for one in status.get("conditions") or [] if one["type"] == "PodScheduled" and one["status"] == "False"]
    return "; ".join(said)[:400]


def phase(pods: dict[str, Object], name: str) -> Any:
    """How far a pod came."""
    return ((pods.get(name) or {}).get("status") or {}).get("phase")


def waiting(pods: dict[str, Object], name: str) -> str:
    """Why the scheduler has no place for a pod; empty where it has one, or has not looked yet."""
    conditions = ((pods.get(name) or {}).get("status") or {}).get("conditions") or []
    found = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return found[0].get("message") or "no reason given" if found and found[0].get("reason") == "Unschedulable" else ""


def plain(run: Run, node: Object) -> Object:
    """A pod that asks for nothing, runs to its end and leaves a log: what it was given, where it ran."""
    name = "plain-" + node["name"]
    refused = run.make(manifests.pod(name, ["devices"], run.request, node))
    run.until(lambda pods: phase(pods, name) in ("Succeeded", "Failed"), 0 if refused else AT_MOST)
    told = seen(run.pods.get(name))
    log = run.log(name) if told["phase"] in ("Running", "Succeeded", "Failed") else {"text": "", "said": "it never ran"}
    run.drop(name)
    return dict(told, why=refused or told["why"], log=log)


def network(run: Run, node: Object, others: Sequence[str], behind: set[str], service: Object, outside: Future[Any]) -> Object:
    """A pod that answers, and what it reaches from where it is."""
    name = "answers-" + node["name"]
    labels = {"answers": "yes"} if name in behind else None
    refused = run.make(manifests.pod(name, ["serve"], run.request, node, labels=labels))
    if refused or not run.until(lambda pods: address(pods, name), AT_MOST):
        return {"pod": dict(seen(run.pods.get(name)), **({"why": refused} if refused else {}))}
    told = {"pod": seen(run.pods.get(name)), "version": run.inside(name, ["version"])}
    told["reach"] = {other: reach(run, name, "answers-" + other) for other in others}
    knows = time.monotonic() + run.left(KNOWN)
    told["names"] = {one: looked_up(run, name, one, knows) for one in ("answers", "kubernetes.default")}
    if outside.result():
        known = outside.result()["name"].rstrip(".") + "."
        told["outside"] = looked_up(run, name, known, knows if any(outside.result()["servers"].values()) else 0)
        # What CoreDNS has once heard it goes on saying for 30 s; a name that nobody has asked for yet has to be handed on.
        told["unheard"] = run.inside(name, ["lookup", *LATEST, f"{run.request['token']}-{node['name']}.{known}"])
    told["service"] = calls(run, name, service["clusterIP"], behind)
    return told


def looked_up(run: Run, name: str, wanted: str, knows: float) -> Object:
    """What a pod is told of a name, asked again until then where it is told nothing."""
    told = run.inside(name, ["lookup", *LATEST, wanted])
    while told["rc"] not in (0, None) and time.monotonic() < knows:
        time.sleep(0.3)
        told = run.inside(name, ["lookup", *LATEST, wanted])
    return told


def address(pods: dict[str, Object], name: str) -> Any:
    """Where a pod answers; empty before it does."""
    return ((pods.get(name) or {}).get("status") or {}).get("podIP") if phase(pods, name) == "Running" else ""


def reach(run: Run, name: str, other: str) -> Object:
    """What one pod gets from another by its address; rc None where the other does not run."""
    if not run.until(lambda pods: address(pods, other), AT_MOST):
        return {"rc": None, "out": "", "said": "no pod runs there"}
    return run.inside(name, ["get", *LATEST, f"http://{address(run.pods, other)}:{manifests.PORT}/"])


def calls(run: Run, name: str, where: str, behind: set[str]) -> Object:
    """Who answers behind the service's address: asked until all have, or often enough."""
    run.until(lambda pods: all(address(pods, one) for one in behind), AT_MOST)
    said, asked, knows = "", 0, time.monotonic() + run.left(KNOWN)
    found: set[str] = set()
    while asked < CALLS or time.monotonic() < knows:
        asked += 1
        told = run.inside(name, ["get", *SOON, f"http://{where}:{manifests.PORT}/"])
        found |= {told["out"].strip()} if told["rc"] == 0 else set()
        said = said if told["rc"] == 0 else told["said"]
        if found >= behind or told["rc"] is None or (said and time.monotonic() > knows):
            break
        time.sleep(0.2 if told["rc"] else 0)
    running = sorted(one for one in behind if address(run.pods, one))
    return {"found": sorted(found), "behind": running, "said": said, "rc": told["rc"]}


def port(run: Run, where: str, number: int, behind: set[str]) -> Object:
    """Who answers on the service's port of a node, asked from here until all have; and what went wrong once kube-proxy knew of it."""
    run.until(lambda pods: all(address(pods, one) for one in behind), AT_MOST)
    running = {one for one in behind if address(run.pods, one)}
    said, calls, knows = "", 0, time.monotonic() + run.left(KNOWN)
    found: set[str] = set()
    while running - found and (calls < CALLS or time.monotonic() < knows) and not (said and time.monotonic() > knows):
        calls += 1
        try:
            with _OPENER.open(f"http://{where}:{number}/", timeout=2 * manifests.SLOWNESS) as answer:
                found.add(answer.read().decode("utf-8", "replace"))
        except OSError as error:
            said = str(getattr(error, "reason", error))
        time.sleep(0.2 if said else 0.05)
    return {"found": sorted(found), "behind": sorted(running), "said": said}


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks without a proxy: what is asked is a node, and the answer must be its own."""


def claimed(run: Run) -> str:
    """A folder of the shared file system, and a claim on it; why it is not bound."""
    os.mkdir(run.folder)
    os.chmod(run.folder, 0o1777)
    volumes, claims = "/api/v1/persistentvolumes", run.path + "/persistentvolumeclaims"
    # In this order, each step seen through: where both sides bind at once, the control plane's own two workers trip over each other,
    # and look again only a quarter of a minute later.
    uid = run.api.post(claims, manifests.claim(run.namespace))["metadata"]["uid"]
    run.api.post(volumes, manifests.volume(run.namespace, run.folder, run.namespace, uid))
    if not _comes_to_bound(run, volumes + "/" + run.namespace):
        return "the control plane takes no notice of the volume"
    run.api.touch(claims + "/shared")
    return "" if _comes_to_bound(run, claims + "/shared") else "the claim is not bound"


def _comes_to_bound(run: Run, path: str) -> bool:
    """Whether a volume or a claim is bound in time."""
    ends = time.monotonic() + run.left(8)
    while time.monotonic() < ends:
        if (run.api.get(path).get("status") or {}).get("phase") == "Bound":
            return True
        time.sleep(0.1)
    return False


def storage(run: Run, node: Object, neighbour: str, claim: Future[str]) -> Object:
    """A pod with the claim: it writes its own file and reads its neighbour's."""
    name, text = "shared-" + node["name"], "written on "
    planned = text + neighbour
    refused = claim.result() or run.make(manifests.pod(name, ["sleep", "60"], run.request, node, claim="shared"))
    if refused or not run.until(lambda pods: phase(pods, name) == "Running", AT_MOST):
        return {"pod": dict(seen(run.pods.get(name)), **({"why": refused} if refused else {}))}
    wrote = run.inside(name, ["write", "/shared/from-" + node["name"], text + node["name"]])
    told: Object = {"rc": None, "out": "", "said": "its neighbour wrote nothing"}
    run.until(lambda pods: phase(pods, "shared-" + neighbour) == "Running", AT_MOST)
    ends = time.monotonic() + run.left(8)
    while wrote["rc"] == 0 and time.monotonic() < ends:
        told = run.inside(name, ["read", "/shared/from-" + neighbour])
        if told["rc"] is None or told["out"].strip() == planned:
            break
        time.sleep(0.3)
    return {"pod": seen(run.pods.get(name)), "wrote": wrote, "read": told, "neighbour": neighbour, "planned": planned}


def gpus(run: Run, node: Object) -> Object:
    """Two pods that take all GPUs of a node, one that must wait for them; then one that has all alone."""
    asked = {"first": node["first"], "second": node["gpus"] - node["first"]}
    names = {part: part + "-" + node["name"] for part in (*asked, "excess", "whole") if asked.get(part, 1)}
    held = [names[part] for part in asked if part in names]
    refused = {part: run.make(_taking(run, node, names[part], asked[part])) for part in asked if part in names}
    run.until(lambda pods: all(phase(pods, one) not in (None, "Pending") or waiting(pods, one) for one in held), AT_MOST)
    # A device that has just come back is not yet with the scheduler.
    run.until(lambda pods: all(phase(pods, one) == "Running" for one in held), 4)
    told = {part: _given(run, names[part], asked[part], refused[part]) for part in asked if part in names}
    told["excess"] = _excess(run, node, names["excess"], held)
    gone = run.drop(*held, names["excess"])
    told["whole"] = _whole(run, node, names["whole"]) if gone else {"asked": node["gpus"], "why": "the pods before it do not end"}
    return told


def _taking(run: Run, node: Object, name: str, count: int) -> Object:
    return manifests.pod(name, ["sleep", "60"], run.request, node, gpus=count)


def _given(run: Run, name: str, count: int, refused: str) -> Object:
    """What a running pod was given, by its own word."""
    told = seen(run.pods.get(name))
    if told["phase"] != "Running":
        return dict(told, asked=count, why=refused or told["why"])
    return dict(told, asked=count, devices=run.inside(name, ["devices"]))


def _excess(run: Run, node: Object, name: str, held: Sequence[str]) -> Object:
    """One pod more than there are GPUs for; what the scheduler says of it."""
    if not all(phase(run.pods, one) == "Running" for one in held):
        return {"taken": False}
    refused = run.make(_taking(run, node, name, 1))
    run.until(lambda pods: waiting(pods, name) or phase(pods, name) not in (None, "Pending"), 0 if refused else 5)
    taken = all(phase(run.pods, one) == "Running" for one in held)
    return dict(seen(run.pods.get(name)), taken=taken, waits=refused or waiting(run.pods, name))


def _whole(run: Run, node: Object, name: str) -> Object:
    """One pod with all GPUs of the node, to its end."""
    refused = run.make(manifests.pod(name, ["devices"], run.request, node, gpus=node["gpus"]))
    run.until(lambda pods: phase(pods, name) in ("Succeeded", "Failed"), 0 if refused else AT_MOST)
    told = seen(run.pods.get(name))
    return dict(told, asked=node["gpus"], why=refused or told["why"], log=run.log(name) if told["phase"] == "Succeeded" else None)


def namespace(run: Run, planned: Object, account: Callable[[Api, str], None]) -> Object:
    """A copy of a namespace of the plan: what its quota and its level of pod security let in. Nothing in it ever runs."""
    name = (run.namespace + "-" + planned["name"])[:63].rstrip("-")
    labels = dict(planned["labels"], **run.own)
    run.api.post("/api/v1/namespaces", manifests.namespace(name, labels))
    path = "/api/v1/namespaces/" + name
    told: Object = {"over": {}, "within": None, "privileged": None}
    account(run.api, name)
    if planned["level"] != "privileged":
        told["privileged"] = sent(run, path, manifests.admitted("privileged", run.request, privileged=True))
    if planned["hard"]:
        run.api.post(path + "/resourcequotas", manifests.quota(planned["hard"]))
        ends = time.monotonic() + run.left(6)
        while not run.api.get(path + "/resourcequotas/quota").get("status", {}).get("hard") and time.monotonic() < ends:
            time.sleep(0.1)
        told["within"] = sent(run, path, manifests.admitted("within", run.request))
        for key, requests in manifests.beyond(planned["hard"]).items():
            told["over"][key] = sent(run, path, manifests.admitted("over-{}".format(len(told["over"])), run.request, requests))
        if not told["over"]:
            told["over"] = {key: _filled(run, path, int(value)) for key, value in planned["hard"].items() if int(value) <= MOST_PODS}
    return told


def _filled(run: Run, path: str, room: int) -> Object:
    """A namespace filled up with pods that never run, and one more; the one within has its place already."""
    for number in range(1, room):
        told = sent(run, path, manifests.admitted(f"fills-{number}", run.request))
        if not told["taken"]:
            return dict(told, said="pod {} of {}: {}".format(number + 1, room, told["said"]))
    return sent(run, path, manifests.admitted("over", run.request))


def sent(run: Run, path: str, pod: Object) -> Object:
    """Whether the API takes a pod, and what it says where it does not."""
    try:
        run.api.post(path + "/pods", pod)
    except Refused as refused:
        return {"taken": False, "status": refused.status, "said": str(refused)}
    return {"taken": True, "status": 201, "said": ""}
