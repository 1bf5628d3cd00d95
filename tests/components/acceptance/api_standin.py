"""A stand-in for a Kubernetes API with the requests of the acceptance: pods of Jobs are processes here, nodes are names with GPUs."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import ssl
import subprocess
import threading
import urllib.parse
from pathlib import Path
from typing import Any

GPU = "nvidia.com/gpu"


class Cluster:
    """Its nodes, its objects, and its faults."""

    def __init__(self, folder: Path, tools: Path, nodes: dict[str, tuple[str, int]], quota: dict[str, str]) -> None:
        self.folder, self.tools, self.nodes, self.quota = folder, tools, nodes, quota
        self.jobs: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.strange: list[Any] = []
        """Pods of others."""
        self.cordoned: set[str] = set()
        self.unmounted: set[str] = set()
        self.services: dict[str, Any] = {}
        self.made: list[str] = []
        """Names of all Jobs that ever were."""
        self.most = 0
        """GPUs held together at the worst moment."""
        self.lock = threading.RLock()
        self.held: dict[str, set[int]] = {node: set() for node in nodes}

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        """Create a Job with its pods."""
        with self.lock:
            name, spec = job["metadata"]["name"], job["spec"]
            self.jobs[name] = job
            self.made.append(name)
            for index in range(spec["completions"]):
                pod = {
                    "metadata": {
                        "name": f"{name}-{index}",
                        "namespace": "research",
                        "labels": {**spec["template"]["metadata"]["labels"], "job-name": name},
                        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
                    },
                    "spec": dict(spec["template"]["spec"]),
                    "status": {"phase": "Pending", "conditions": []},
                }
                self.pods[pod["metadata"]["name"]] = pod
        self.place()
        return job

    def place(self) -> None:
        """Assign pods without a node to nodes with enough space."""
        with self.lock:
            for pod in self.pods.values():
                if "nodeName" not in pod["spec"]:
                    self._place(pod)

    def _place(self, pod: dict[str, Any]) -> None:
        spec = pod["spec"]
        wants = int(spec["containers"][0]["resources"].get("limits", {}).get(GPU, 0))
        for node in self._eligible(pod):
            free = sorted(set(range(self.nodes[node][1])) - self.held[node])
            if len(free) >= wants:
                spec["nodeName"] = node
                given = free[:wants]
                self.held[node] |= set(given)
                self.most = max(self.most, sum(map(len, self.held.values())))
                if node in self.unmounted and spec.get("volumes"):
                    return
                pod["status"]["phase"] = "Running"
                threading.Thread(target=self._run, args=(pod, given), daemon=True).start()
                return
        why = f"0/{len(self.nodes)} nodes are available: {len(self.nodes)} Insufficient {GPU}."
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}]

    def _eligible(self, pod: dict[str, Any]) -> list[str]:
        """Return the eligible nodes; of several, the last is first, so that no index is where a test might expect it."""
        spec = pod["spec"]
        if "nodeSelector" in spec:
            return [spec["nodeSelector"]["kubernetes.io/hostname"]]
        rule = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
        name = pod["metadata"]["labels"]["job-name"]
        taken = [one["spec"].get("nodeName") for one in self.pods.values() if one["metadata"]["labels"]["job-name"] == name]
        return [node for node in reversed(rule["matchExpressions"][0]["values"]) if node not in taken]

    def _run(self, pod: dict[str, Any], given: list[int]) -> None:
        """Run its container as a process whose GPUs are files in a folder of its own."""
        container, node = pod["spec"]["containers"][0], pod["spec"]["nodeName"]
        devices = self.folder / f"devices-{pod['metadata']['name']}"
        devices.mkdir()
        for number in given:
            (devices / f"nvidia{number}").touch()
        words = [
            word.replace("/dev/nvidia", f"{devices}/nvidia").replace("/dev/termination-log", "/nowhere") for word in container["command"]
        ]
        fields = {"spec.nodeName": node, "status.hostIP": self.nodes[node][0]}
        told = {one["name"]: one.get("value") or fields[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in container["env"]}
        told |= {"JOB_COMPLETION_INDEX": pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]}
        told |= {"SLURMD_NODENAME": node, "STANDIN": str(self.folder), "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}"}
        if given:
            told["NVIDIA_VISIBLE_DEVICES"] = ",".join(map(str, given))
        child = subprocess.Popen(words, env=told, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pod["child"] = child
        out, err = child.communicate()
        with self.lock:
            pod["log"] = out
            ended = {"exitCode": child.returncode, "message": err}
            pod["status"] = {
                "phase": "Failed" if child.returncode else "Succeeded",
                "containerStatuses": [{"state": {"terminated": ended}}],
            }
            self.held[node] -= set(given)
        self.place()

    def delete(self, name: str) -> None:
        """Delete a Job with its pods."""
        with self.lock:
            self.jobs.pop(name, None)
            for key in [key for key, pod in self.pods.items() if pod["metadata"]["labels"]["job-name"] == name]:
                pod = self.pods.pop(key)
                if "child" in pod and pod["child"].poll() is None:
                    pod["child"].kill()

    def listed(self, path: str, query: dict[str, str]) -> list[Any]:
        """Return objects of a kind."""
        with self.lock:
            if path.endswith("/nodes"):
                return [self._node(name) for name in self.nodes]
            if path == "/api/v1/pods":
                return [*self.strange, *(plain(pod) for pod in self.pods.values() if pod["status"]["phase"] in ("Pending", "Running"))]
            if path.endswith("/events"):
                return self._events(query["fieldSelector"])
            if path.endswith("/resourcequotas"):
                return [{"status": {"hard": self.quota, "used": dict.fromkeys(self.quota, "0")}}] if self.quota else []
            kept = {"pods": self.pods, "jobs": self.jobs, "services": self.services}[path.rpartition("/")[2]]
            key, _, value = query.get("labelSelector", "").partition("=")
            return [plain(one) for one in kept.values() if not key or one["metadata"]["labels"].get(key) == value]

    def _node(self, name: str) -> dict[str, Any]:
        spec = {"unschedulable": True} if name in self.cordoned else {}
        return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    def _events(self, selector: str) -> list[Any]:
        name = selector.rpartition("=")[2]
        pod = self.pods.get(name)
        if pod and pod["spec"].get("nodeName") in self.unmounted and pod["spec"].get("volumes"):
            return [{"reason": "FailedMount", "message": "hostPath type check failed: is not a directory"}]
        return []


def plain(one: dict[str, Any]) -> dict[str, Any]:
    """Return an object in its wire format."""
    return {key: value for key, value in one.items() if key not in ("child", "log")}


def handler(cluster: Cluster) -> type[http.server.BaseHTTPRequestHandler]:
    """Return the request handler."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def answer(self, status: int, body: Any, kind: str = "application/json") -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            where = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(where.query))
            if where.path == "/version":
                self.answer(200, {"gitVersion": "v1.34.1"})
            elif where.path.endswith("/log"):
                self.answer(200, cluster.pods[where.path.split("/")[-2]].get("log", ""), "text/plain")
            else:
                self.answer(200, {"items": cluster.listed(where.path, query)})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if body["kind"] == "Job":
                cluster.create(body)
            else:
                cluster.services[body["metadata"]["name"]] = body
            self.answer(201, body)

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind, name = self.path.split("/")[-2:]
            known = {"jobs": cluster.jobs, "services": cluster.services}[kind]
            if name not in known:
                self.answer(404, {"message": "not found"})
                return
            cluster.delete(name) if kind == "jobs" else known.pop(name)
            self.answer(200, {})

    return Handler


@contextlib.contextmanager
def serving(cluster: Cluster) -> Any:
    """Serve the API; yield the path of its kubeconfig."""
    key, certificate = cluster.folder / "key.pem", cluster.folder / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=api",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(cluster))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    packed = {name: base64.b64encode(path.read_bytes()).decode() for name, path in (("cert", certificate), ("key", key))}
    config = cluster.folder / "kubeconfig"
    config.write_text(
        f"    certificate-authority-data: {packed['cert']}\n    server: https://127.0.0.1:{server.server_address[1]}\n"
        f"    client-certificate-data: {packed['cert']}\n    client-key-data: {packed['key']}\n"
    )
    try:
        yield config
    finally:
        server.shutdown()
