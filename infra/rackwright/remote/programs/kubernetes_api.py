"""Run on the node, a controller: query its own API server as the cluster's administrator.

Input: {"topic": a key of TOPICS, "arguments": [words]}.
Output: what checks need of that topic, as JSON. Nothing is written, and no secret's contents are printed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import calendar
import concurrent.futures
import http.client
import json
import os
import re
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

ADMIN = "/etc/kubernetes/admin.conf"
HERE = ("127.0.0.1", 6443)
PATIENCE = 5 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""Seconds for one response; the round measures the node's slowness (docs/adr/0026)."""
DEVICES = "nvidia.com/"
STARTING = ("PodInitializing", "ContainerCreating")
"""Reasons of containers that wait for others, or for their image or network."""
LIKE_ROOT = {"ALL", "BPF", "DAC_READ_SEARCH", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_RAWIO"}
"""Capabilities that make a container equal to root on its node (capabilities(7))."""
DEAD = "http2: client connection lost"  # golang.org/x/net/http2: a connection whose peer no longer responds to pings


class ApiRefusedError(Exception):
    """A request that the API server refused: path and status."""


def context() -> ssl.SSLContext:
    """Return the TLS context of admin.conf. Its key is passed through a file in memory: ssl accepts only files."""
    with open(ADMIN) as stream:
        words = dict(re.findall(r"(\S+-data): (\S+)", stream.read()))
    made = ssl.create_default_context(cadata=base64.b64decode(words["certificate-authority-data"]).decode())
    file = os.memfd_create("client")
    os.write(file, base64.b64decode(words["client-certificate-data"]) + base64.b64decode(words["client-key-data"]))
    made.load_cert_chain(f"/proc/self/fd/{file}")
    os.close(file)
    return made


class Api:
    """One persistent connection to the API server."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls, self._connection = tls, http.client.HTTPSConnection(*HERE, context=tls, timeout=PATIENCE)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        """Send a request; return status and text. A request with a body must be a dry run."""
        text = json.dumps(body).encode() if body else None
        self._connection.request("POST" if body else "GET", path, text, {"Content-Type": "application/json"} if body else {})
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")

    def get(self, path: str) -> Any:
        """Return the parsed object at a path."""
        status, text = self.ask(path)
        if status != 200:
            excerpt = " ".join(text.split())[:200]
            raise ApiRefusedError(f"{path}: status {status}: {excerpt}")
        return json.loads(text)


def items(api: Api, path: str) -> Iterator[dict[str, Any]]:
    """Yield all objects of a list, page by page."""
    mark = ""
    while True:
        page = api.get(path + ("&" if "?" in path else "?") + "limit=500" + ("&continue=" + mark if mark else ""))
        yield from page["items"]
        mark = page["metadata"].get("continue", "")
        if not mark:
            return


def node(one: dict[str, Any]) -> dict[str, Any]:
    """Return what checks need of a node."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    resources: dict[str, dict[str, str]] = {}
    conditions = status.get("conditions") or ()  # A node that was created by hand has none.
    for kind in ("capacity", "allocatable"):
        resources[kind] = {name: value for name, value in (status.get(kind) or {}).items() if name.startswith(DEVICES)}
    info = status.get("nodeInfo") or {}
    return {
        "name": one["metadata"]["name"],
        "labels": one["metadata"].get("labels") or {},
        "taints": [taint["key"] + "=" + (taint.get("value") or "") + ":" + taint["effect"] for taint in spec.get("taints") or ()],
        "range": spec.get("podCIDR") or "",
        "cordoned": bool(spec.get("unschedulable")),
        "addresses": [each["address"] for each in status.get("addresses") or () if each["type"] == "InternalIP"],
        "kubelet": info.get("kubeletVersion", ""),
        "runtime": info.get("containerRuntimeVersion", ""),
        "conditions": [[each["type"], each["status"], each.get("reason", ""), each.get("message", "")] for each in conditions],
        **resources,
    }


def nodes(api: Api, _: Sequence[str]) -> list[dict[str, Any]]:
    """Return all nodes."""
    return [node(one) for one in items(api, "/api/v1/nodes")]


def pod(one: dict[str, Any]) -> dict[str, Any]:
    """Return what checks need of a pod."""
    spec, status, metadata = one["spec"], one.get("status") or {}, one["metadata"]
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "node": spec.get("nodeName") or "",
        "phase": status.get("phase") or "",
        "ready": any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ()),
        "why": ", ".join(reasons(status)),
        "rights": rights(spec),
        "leaving": "deletionTimestamp" in metadata,
    }


def rights(spec: dict[str, Any]) -> list[str]:
    """Return the rights of a pod on its node outside of its containers, of which `kubectl debug` may have added one."""
    containers = [each for kind in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(kind) or ()]
    contexts = [each.get("securityContext") or {} for each in containers]
    added = {name.upper().replace("CAP_", "", 1) for each in contexts for name in (each.get("capabilities") or {}).get("add") or ()}
    found = [word for word in ("hostNetwork", "hostPID", "hostIPC") if spec.get(word)]
    found += ["privileged"] * any(each.get("privileged") for each in contexts)
    found += ["capability " + name for name in sorted(added & LIKE_ROOT)]
    return found + ["hostPath " + each["hostPath"]["path"] for each in spec.get("volumes") or () if each.get("hostPath")]


def reasons(status: dict[str, Any]) -> list[str]:
    """Return why a pod does not run: the pod's own reason, else those of its containers, init containers first."""
    if status.get("reason"):
        return [": ".join(filter(None, (status["reason"], status.get("message"))))]
    found = []
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(kind) or ():
            state, before = each.get("state") or {}, (each.get("lastState") or {}).get("terminated") or {}
            waits, ended = state.get("waiting") or {}, state.get("terminated") or {}
            if waits:
                last = f" (last: {before.get('reason') or 'exit status'} {before.get('exitCode')})" if before else ""
                found.append((waits.get("reason") or "waiting") + last)
            elif ended.get("exitCode"):
                found.append(f"{ended.get('reason') or 'exit status'} {ended['exitCode']}")
    for each in status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False":
            found.append(": ".join(filter(None, (each.get("reason"), each.get("message")))))
    specific = [reason for reason in found if reason not in STARTING]
    return list(dict.fromkeys(specific or found))


def pods(api: Api, _: Sequence[str]) -> list[dict[str, Any]]:
    """Return the pods of kube-system, and of other namespaces those with privileges on their node."""
    found = [pod(one) for one in items(api, "/api/v1/pods")]
    return [one for one in found if one["namespace"] == "kube-system" or one["rights"]]


def configuration(api: Api, name: str) -> Any:
    """Return the configuration of a kubelet, read through the API; after a dead connection, which is reported once, try again."""
    path = f"/api/v1/nodes/{name}/proxy/configz"
    try:
        return api.get(path)["kubeletconfig"]
    except ApiRefusedError as error:
        if DEAD not in str(error):
            raise
        return api.get(path)["kubeletconfig"]


def kubelets(_: Api, names: Sequence[str]) -> dict[str, Any]:
    """Return the whole configuration of each kubelet, or the reason why it is unknown."""
    tls = context()

    def ask(name: str) -> tuple[str, Any]:
        try:
            return name, configuration(Api(tls), name)
        except (OSError, ValueError, KeyError, ApiRefusedError, http.client.HTTPException) as error:
            return name, str(error) or repr(error)

    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        return dict(pool.map(ask, names))


def objects(api: Api, paths: Sequence[str]) -> dict[str, Any]:
    """Return the object at each path; null if there is none."""
    found: dict[str, Any] = {}
    for path in paths:
        status, text = api.ask(path)
        if status not in (200, 404):
            raise ApiRefusedError(f"{path}: status {status}")
        found[path] = json.loads(text) if status == 200 else None
        if found[path]:
            found[path]["metadata"].pop("managedFields", None)
    return found


TRIED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "kueue": (
        "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor"},
        {},
    ),
    "jobset": (
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"},
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "none"}]}}}}}]},
    ),
    "trainer": (
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainingruntimes",
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"},
        {
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                "spec": {"template": {"spec": {"containers": [{"name": "other", "image": "none"}]}}},
                            },
                        }
                    ]
                }
            }
        },
    ),
    "training-operator": (
        "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"},
        {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "other", "image": "none"}]}}}}},
    ),
    "leaderworkerset": (
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
        {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"},
        {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "a", "image": "none"}]}}}},
    ),
    "metallb": (
        "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools",
        {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool"},
        {"addresses": ["192.0.2.2-192.0.2.1"]},
    ),
}
"""By addon: an object that its webhooks modify or deny, its path, its contents. Sent as a dry run (dryRun)."""


def hooks(api: Api, names: Sequence[str]) -> dict[str, Any]:
    """Return the result of each addon's dry run, or the reason why there is none."""
    found: dict[str, Any] = {}
    for name in names:
        path, kind, spec = TRIED[name]
        status, text = api.ask(path + "?dryRun=All", {**kind, "metadata": {"name": "rackwright-trial"}, "spec": spec})
        found[name] = json.loads(text) if status in (200, 201) else {"refused": f"status {status}: {message_of(text)}"}
        found[name].get("metadata", {}).pop("managedFields", None)
    return found


def message_of(text: str) -> str:
    """Return the message of a refusal: of a Status object, or the text of a server behind the API."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join(text.split())[:200]


def measurements(api: Api, _: Sequence[str]) -> dict[str, Any]:
    """Return the age in seconds and the usage that metrics report for each node, or the reason why there are none."""
    status, text = api.ask("/apis/metrics.k8s.io/v1beta1/nodes")
    if status != 200:
        return {"error": f"status {status}: {' '.join(text.split())[:200]}", "nodes": {}}
    now = time.time()
    found: dict[str, Any] = {}
    for one in json.loads(text)["items"]:
        stamp = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z", one.get("timestamp") or "")
        taken = calendar.timegm(time.strptime(stamp[1], "%Y-%m-%dT%H:%M:%S")) if stamp else None
        usage = one.get("usage") or {}
        age = None if taken is None else round(now - taken, 1)
        found[one["metadata"]["name"]] = {"age": age, "cpu": usage.get("cpu", ""), "memory": usage.get("memory", "")}
    return {"error": "", "nodes": found}


def tokens(api: Api, _: Sequence[str]) -> dict[str, str]:
    """Return when each bootstrap token ends, without its secret half."""
    path = "/api/v1/namespaces/kube-system/secrets?fieldSelector=type%3Dbootstrap.kubernetes.io/token"
    ends = {one["metadata"]["name"].rpartition("-")[2]: one.get("data", {}).get("expiration", "") for one in items(api, path)}
    return {name: base64.b64decode(end).decode() for name, end in ends.items()}


def health(api: Api, _: Sequence[str]) -> str:
    """Return the health of the API server's components; the error if it refuses connections or does not list components."""
    try:
        status, text = api.ask("/readyz?verbose")
    except ConnectionRefusedError:
        return "[-]the API server refuses connections"
    return text if "[+]" in text or "[-]" in text else f"[-]the API server answers with status {status}: {' '.join(text.split())[:200]}"


TOPICS = {
    "health": health,
    "hooks": hooks,
    "kubelets": kubelets,
    "measurements": measurements,
    "nodes": nodes,
    "objects": objects,
    "pods": pods,
    "tokens": tokens,
}


def main(request: dict[str, Any]) -> Any:
    """Query one topic; exit with the reason if the API server does not respond."""
    try:
        return TOPICS[request["topic"]](Api(context()), request.get("arguments", ()))
    except (OSError, ValueError, KeyError, ApiRefusedError, http.client.HTTPException) as trouble:
        sys.exit(f"{HERE[0]}: {trouble or repr(trouble)}")
