"""Run on the node, a controller, as root: start pods on every idle worker at once, query them, and remove everything again.

Input: `_request` of rackwright.checks.cluster.probes.pods. Output: the results of the pods, as one JSON document.
The kubelet ends each pod but those of a group or a Deployment after a while, and every run deletes what killed runs left behind.
Python 3.9, standard library only.
"""

from __future__ import annotations

import calendar
import concurrent.futures
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from rackwright.remote.programs import dns, pod_balancers, pod_claims, pod_groups, pod_jobs, pod_policies, pod_scaling
from rackwright.remote.programs import pod_checks as checks
from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import Api, ApiRefusedError
from rackwright.remote.programs.quantities import gpus_of

Object = dict[str, Any]

OLD = 180 * manifests.SLOWNESS
"""Seconds after which the objects of a run count as abandoned."""
MARK = ".rackwright-smoke-"


class Run:
    """One run: its names, its time, and the state of its pods as the API reports it."""

    def __init__(self, api: Api, request: Object) -> None:
        self.api, self.request = api, request
        self.began = time.monotonic()
        self.deadline: float = self.began + request["seconds"] * manifests.SLOWNESS
        self.namespace = "rackwright-smoke-" + request["token"]
        self.path = "/api/v1/namespaces/" + self.namespace
        self.own = {"rackwright-smoke": request["token"]}
        request["priority"] = self.namespace
        self.folder = os.path.join(request["storage"], MARK + request["token"]) if request["storage"] else ""
        self.pods: dict[str, Object] = {}
        self.changed = threading.Condition()
        self.ending = False
        self.spoken = threading.Semaphore(16)
        """Commands in pods at a time: each needs a connection through the API to a kubelet."""

    def left(self, most: float) -> float:
        """Return the seconds that a step may take; `most` is for a node of usual speed."""
        return max(0.1, min(most * manifests.SLOWNESS, self.deadline - time.monotonic()))

    def watch(self, version: str) -> None:
        """Keep the state of the pods up to date until the run ends."""
        while not self.ending:
            try:
                for kind, found in self.api.follow(self.path + "/pods", version, self.request["seconds"] * manifests.SLOWNESS + 30):
                    if kind == "ERROR":
                        break
                    version = found["metadata"]["resourceVersion"]
                    with self.changed:
                        if kind == "DELETED":
                            self.pods.pop(found["metadata"]["name"], None)
                        elif kind != "BOOKMARK":
                            self.pods[found["metadata"]["name"]] = found
                        self.changed.notify_all()
            except (OSError, ApiRefusedError, ValueError):
                pass
            time.sleep(0.2)

    def until(self, test: Callable[[dict[str, Object]], Any], seconds: float) -> Any:
        """Wait until the pods pass a test; return its result."""
        with self.changed:
            return self.changed.wait_for(lambda: test(self.pods), self.left(seconds))

    def make(self, pod: Object) -> str:
        """Create a pod of the run; return why the API refuses it."""
        try:
            self.api.post(self.path + "/pods", pod)
        except ApiRefusedError as refused:
            return str(refused)
        return ""

    def inside(self, name: str, words: Sequence[str], patience: float = 5) -> Object:
        """Run a command in a pod and return its output."""
        with self.spoken:
            return self.api.run_in(self.path + "/pods/" + name, ["probe", *words], self.left(patience))

    def log(self, name: str) -> dict[str, str]:
        """Return the log of a pod: {"text", "said"}."""
        try:
            return {"text": self.api.call("GET", self.path + "/pods/" + name + "/log"), "said": ""}
        except (ApiRefusedError, OSError) as error:  # OSError: the kubelet does not respond to the API, which continues to wait for it.
            return {"text": "", "said": str(error)}

    def drop(self, *names: str) -> Any:
        """Delete pods and wait until they are gone."""
        for name in names:
            self.api.delete(self.path + "/pods/" + name, grace=1)
        return self.until(lambda pods: not set(names) & set(pods), 10)


def usable(nodes: Sequence[Object], found: Sequence[Object]) -> dict[str, str]:
    """Return for each node of the plan why it accepts no pods; empty if it accepts them."""
    known = {node["metadata"]["name"]: node for node in found}
    return {node["name"]: unschedulable_reason(known.get(node["name"]), node["taints"]) for node in nodes}


def unschedulable_reason(node: Object | None, planned: Sequence[str]) -> str:
    """Return why a node accepts no pods; empty if it accepts them."""
    if node is None:
        return "not a node of the cluster"
    conditions = {one["type"]: one for one in node["status"].get("conditions") or []}
    ready = conditions.get("Ready") or {}
    if ready.get("status") != "True":
        return "not ready: " + (ready.get("message") or "its kubelet posts no status")
    if node["spec"].get("unschedulable"):
        return "cordoned"
    taints = ["{}={}:{}".format(one["key"], one.get("value") or "", one["effect"]) for one in node["spec"].get("taints") or []]
    own = {one.replace("=:", ":") for one in planned}
    strange = [one for one in taints if one.replace("=:", ":") not in own and not one.endswith("PreferNoSchedule")]
    return "tainted " + ", ".join(strange) if strange else ""


def taken(api: Api, own: str) -> dict[str, int]:
    """Return the number of GPUs that other pods hold, by node."""
    found: dict[str, int] = {}
    for pod in api.get("/api/v1/pods?fieldSelector=status.phase!=Succeeded,status.phase!=Failed")["items"]:
        node = pod["spec"].get("nodeName")
        if node and pod["metadata"]["namespace"] != own:
            held = gpus_of(pod)
            if held:
                found[node] = found.get(node, 0) + held
    return found


def sweep(api: Api, now: float) -> None:
    """Delete the objects of killed runs: everything with the label that is too old to be in use."""
    query = "?labelSelector=" + "app.kubernetes.io%2Fmanaged-by%3Drackwright-smoke"
    for path in ("/api/v1/namespaces", "/api/v1/persistentvolumes", "/apis/scheduling.k8s.io/v1/priorityclasses"):
        for found in api.get(path + query)["items"]:
            born = calendar.timegm(time.strptime(found["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
            if now - born > OLD:
                api.delete(path + "/" + found["metadata"]["name"])
                folder = ((found.get("spec") or {}).get("hostPath") or {}).get("path") or ""
                if os.path.basename(folder).startswith(MARK):
                    shutil.rmtree(folder, ignore_errors=True)


def prepare(run: Run) -> Any:
    """Create the namespace and what its pods need, as far as the plan has it."""
    api, request, name = run.api, run.request, run.namespace
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority(name))
    api.post("/api/v1/namespaces", manifests.namespace(name, dict(run.own, **{"pod-security.kubernetes.io/enforce": "baseline"})))
    account(api, name)
    version = api.get(run.path + "/pods")["metadata"]["resourceVersion"]
    threading.Thread(target=run.watch, args=(version,), daemon=True).start()
    return api.post(run.path + "/services", manifests.service("answers"))["spec"] if request["nodes"] else None


def account(api: Api, name: str) -> None:
    """Create the service account of a namespace, unless the control plane has created it already."""
    try:
        api.post("/api/v1/namespaces/" + name + "/serviceaccounts", manifests.account())
    except ApiRefusedError as refused:
        if refused.status != 409:
            raise


def smoke(run: Run) -> Object:
    """Run all checks of one run and return one document."""
    api, request = run.api, run.request
    sweep(api, time.time())
    states = usable(request["nodes"], api.get("/api/v1/nodes")["items"])
    held = taken(api, run.namespace)
    nodes = [dict(node, busy=node["name"] in held) for node in request["nodes"] if not states[node["name"]]]
    result: Object = {"states": states, "nodes": {}, "namespaces": {}, "ports": {}, "service": ""}
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(256, 8 + 8 * len(nodes))) as pool:
        copies = {one["name"]: pool.submit(checks.namespace, run, one, account) for one in request["namespaces"]}
        outside = pool.submit(dns.known, request["outside"])
        service = prepare(run)
        result["service"] = service["clusterIP"] if service else ""
        result["privileged"] = checks.sent(run, run.path, manifests.admitted("privileged", request, privileged=True))
        claimed = pool.submit(checks.claimed, run) if run.folder else None
        begun = {node["name"]: begin(run, pool, node, nodes, service, claimed, outside) for node in nodes}
        port = service["ports"][0]["nodePort"] if service else 0
        ports = {name: pool.submit(checks.port, run, address, port, behind(nodes)) for name, address in request["ports"].items() if nodes}
        kept = request["policies"] and nodes
        guarded = pool.submit(pod_policies.policies, run, nodes[0], nodes[-1], request["policies"], account) if kept else None
        grouped = pool.submit(pod_groups.group, run, nodes) if request["groups"] and nodes else None
        trained = pool.submit(pod_jobs.training, run, nodes) if request["training"] and nodes else None
        balanced = pool.submit(pod_balancers.balancer, run, nodes, behind(nodes)) if request["balancers"] and nodes else None
        scaled = pool.submit(pod_scaling.scaling, run, nodes) if request["scaling"] and nodes else None
        result["nodes"] = {name: {part: one.result() for part, one in parts.items()} for name, parts in begun.items()}
        result["outside"] = outside.result()
        result["ports"] = {name: one.result() for name, one in ports.items()}
        result["policies"] = guarded.result() if guarded else None
        result["group"] = grouped.result() if grouped else None
        result["training"] = trained.result() if trained else None
        result["balancer"] = balanced.result() if balanced else None
        result["scaling"] = scaled.result() if scaled else None
        result["namespaces"] = {name: one.result() for name, one in copies.items()}
    result["busy"] = sorted(set(held) | set(taken(api, run.namespace)))
    return result


def behind(nodes: Sequence[Object]) -> set[str]:
    """Return the names of the pods behind the service."""
    return {"answers-" + one["name"] for one in nodes[: checks.BEHIND]}


def begin(
    run: Run,
    pool: concurrent.futures.ThreadPoolExecutor,
    node: Object,
    nodes: Sequence[Object],
    service: Object,
    claimed: concurrent.futures.Future[str] | None,
    outside: concurrent.futures.Future[Any],
) -> dict[str, concurrent.futures.Future[Any]]:
    """Start all checks of one node; return the pending results by part."""
    place = [one["name"] for one in nodes].index(node["name"])
    others = [nodes[index]["name"] for index in checks.peers(place, len(nodes))]
    parts = {
        "plain": pool.submit(checks.plain, run, node),
        "network": pool.submit(checks.network, run, node, others, behind(nodes), service, outside),
    }
    if claimed:
        neighbour = nodes[(place + 1) % len(nodes)]["name"]
        parts["storage"] = pool.submit(checks.storage, run, node, neighbour, claimed)
    if run.request["claims"]:
        parts["device"] = pool.submit(pod_claims.claimed_device, run, node)
    if node["gpus"] and not node["busy"]:
        parts["gpus"] = pool.submit(checks.gpus, run, node)
    return parts


def take_back(run: Run) -> Object:
    """Delete everything that the run created. The namespaces end in the background; the pods are gone when this returns."""
    api, query = run.api, "?labelSelector=rackwright-smoke%3D" + run.request["token"]
    run.deadline = time.monotonic() + 12 * manifests.SLOWNESS
    attempts: list[Callable[[], Any]] = [
        lambda: api.delete(pod_groups.path(run.namespace) + "/" + pod_groups.NAME) if run.request["groups"] else None,
        lambda: api.delete(pod_jobs.path(run.namespace) + "/" + pod_jobs.NAME) if run.request["training"] else None,
        lambda: pod_scaling.remove(run) if run.request["scaling"] else None,
        lambda: api.delete(run.path + "/pods", grace=1),
        lambda: [api.delete("/api/v1/namespaces/" + one["metadata"]["name"]) for one in api.get("/api/v1/namespaces" + query)["items"]],
        lambda: run.until(lambda pods: not pods, 10),
        lambda: api.delete("/api/v1/persistentvolumes/" + run.namespace),
        lambda: api.delete("/apis/scheduling.k8s.io/v1/priorityclasses/" + run.namespace),
    ]
    messages = []
    for attempt in attempts:
        try:
            attempt()
        except (ApiRefusedError, OSError) as error:
            messages.append(str(error))
    if run.folder:
        shutil.rmtree(run.folder, ignore_errors=True)
    with run.changed:
        left = sorted(run.pods)
    run.ending = True
    return {"pods": left, "said": [one for one in messages if "not found" not in one]}


def stopped(_signal: int, _frame: object) -> None:
    """Handle a signal: exit through the path that deletes everything."""
    raise SystemExit(1)


def main(request: Object) -> Object:
    """Run the smoke pods, clean up, and return the result."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stopped)
    random.seed(request["token"])
    run = Run(Api(patience=10 * manifests.SLOWNESS), request)
    result: Object = {}
    try:
        result = smoke(run)
    finally:
        worked = time.monotonic() - run.began
        result["left"] = take_back(run)
    result["seconds"] = {"worked": round(worked, 2), "all": round(time.monotonic() - run.began, 2)}
    return result
