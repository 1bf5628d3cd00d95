#!/usr/bin/python3
"""Objects of Kubernetes under the names of kube-state-metrics, as few as the alert rules read.

Pods, deployments, daemon sets and jobs in namespaces of users are left out: what fails there is their owners' matter.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from rackwright_metrics import PATIENCE, CollectError, Samples, run

KUBECONFIG = "/etc/kubernetes/rackwright-monitoring.conf"
PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "deployments": "/apis/apps/v1/deployments",
    "daemonsets": "/apis/apps/v1/daemonsets",
    "jobs": "/apis/batch/v1/jobs",
}
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
GPU = "nvidia.com/gpu"


def connect(path: str = KUBECONFIG) -> http.client.HTTPSConnection:
    """Return a connection to the API with the credential of a kubeconfig. Raise CollectError for one that cannot be read."""
    keys = ("server", "certificate-authority-data", "client-certificate-data", "client-key-data")
    try:
        with open(path, encoding="utf-8") as stream:
            found = dict(re.findall(rf"^\s*({'|'.join(keys)}): *(\S+)", stream.read(), re.MULTILINE))
        context = ssl.create_default_context(cadata=base64.b64decode(found["certificate-authority-data"]).decode())
        held = os.memfd_create("monitoring")  # ssl reads keys from files only; one in memory is not left behind
        try:
            os.write(held, base64.b64decode(found["client-certificate-data"]) + b"\n" + base64.b64decode(found["client-key-data"]))
            context.load_cert_chain(f"/proc/self/fd/{held}")
        finally:
            os.close(held)
    except (OSError, LookupError, ValueError) as error:
        raise CollectError(f"{path}: {error}") from None
    where = urlsplit(found["server"])
    return http.client.HTTPSConnection(where.hostname or "", where.port or 443, context=context, timeout=PATIENCE)


def reader(connection: http.client.HTTPSConnection) -> Callable[[str], list[dict[str, Any]]]:
    """Return a function for the items of a list. It raises CollectError without an answer."""

    def items(path: str) -> list[dict[str, Any]]:
        try:
            # resourceVersion=0: from the API server's memory, which spares etcd.
            connection.request("GET", f"{path}?resourceVersion=0", headers={"Accept": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise CollectError(f"{path}: status {answer.status}")
            found: list[dict[str, Any]] = json.loads(text)["items"]
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            raise CollectError(f"{path}: {error}") from None
        return found

    return items


def of_system(items: list[dict[str, Any]], users: set[str]) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Yield the labels `namespace` and name of each object outside of users' namespaces, with the object."""
    for one in items:
        if one["metadata"]["namespace"] not in users:
            yield {"namespace": one["metadata"]["namespace"], "name": one["metadata"]["name"]}, one


def add_nodes(items: list[dict[str, Any]], planned: Mapping[str, int], samples: Samples) -> None:
    """Add conditions and GPUs; a node of the plan that is not registered is not ready."""
    live = {one["metadata"]["name"]: one for one in items}
    for name in sorted({*live, *planned}):
        one = live.get(name, {"spec": {}, "status": {}})
        conditions = {row["type"]: row["status"] for row in one["status"].get("conditions", ())}
        for kind, found in {"Ready": "Unknown", **conditions}.items():
            for status in ("True", "False", "Unknown"):
                samples.set("kube_node_status_condition", found == status, node=name, condition=kind, status=status.lower())
        samples.set("kube_node_spec_unschedulable", bool(one["spec"].get("unschedulable")), node=name)
        if planned.get(name):
            offered = one["status"].get("allocatable", {}).get(GPU, "0")
            samples.set("kube_node_status_allocatable", int(offered), node=name, resource="nvidia_com_gpu", unit="integer")
            samples.set("rackwright_kubernetes_gpus_planned", planned[name], node=name)


def add_pods(items: list[dict[str, Any]], users: set[str], samples: Samples) -> None:
    """Add phase, restarts and the reason to wait of each pod of the system, and the number of pods by namespace."""
    counts = Counter((one["metadata"]["namespace"], one["status"].get("phase", "Unknown")) for one in items)
    for namespace in sorted({*users, *(name for name, _ in counts)}):
        for phase in PHASES:
            samples.set("rackwright_kubernetes_pods", counts[namespace, phase], namespace=namespace, phase=phase)
    for names, one in of_system(items, users):
        labels = {"namespace": names["namespace"], "pod": names["name"]}
        for phase in PHASES:
            samples.set("kube_pod_status_phase", one["status"].get("phase", "Unknown") == phase, **labels, phase=phase)
        for container in one["status"].get("containerStatuses", ()):
            samples.set("kube_pod_container_status_restarts_total", container["restartCount"], **labels, container=container["name"])
            reason = container.get("state", {}).get("waiting", {}).get("reason")
            if reason:
                samples.set("kube_pod_container_status_waiting_reason", 1, **labels, container=container["name"], reason=reason)


def add_owners(read: Callable[[str], list[dict[str, Any]]], users: set[str], samples: Samples) -> None:
    """Add deployments, daemon sets and jobs of the system."""
    for names, one in of_system(read(PATHS["deployments"]), users):
        labels = {"namespace": names["namespace"], "deployment": names["name"]}
        samples.set("kube_deployment_spec_replicas", one["spec"].get("replicas", 1), **labels)
        samples.set("kube_deployment_status_replicas_available", one["status"].get("availableReplicas", 0), **labels)
    for names, one in of_system(read(PATHS["daemonsets"]), users):
        labels = {"namespace": names["namespace"], "daemonset": names["name"]}
        samples.set("kube_daemonset_status_desired_number_scheduled", one["status"].get("desiredNumberScheduled", 0), **labels)
        samples.set("kube_daemonset_status_number_unavailable", one["status"].get("numberUnavailable", 0), **labels)
    for names, one in of_system(read(PATHS["jobs"]), users):
        failed = any(row["type"] == "Failed" and row["status"] == "True" for row in one["status"].get("conditions", ()))
        samples.set("kube_job_failed", failed, namespace=names["namespace"], job_name=names["name"], condition="true")


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """The first request that fails ends the collection: each of them waits for the same server."""
    planned: Mapping[str, Any] = configuration["kubernetes"]
    connection = connect()
    try:
        read = reader(connection)
        add_objects(read, planned, samples)
    finally:
        connection.close()


def add_objects(read: Callable[[str], list[dict[str, Any]]], planned: Mapping[str, Any], samples: Samples) -> None:
    """Add all objects. Raise CollectError for an object of another form."""
    users = set(planned["user_namespaces"])
    try:
        add_nodes(read(PATHS["nodes"]), planned["gpus"], samples)
        add_pods(read(PATHS["pods"]), users, samples)
        add_owners(read, users, samples)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CollectError(f"the API sent an object of another form: {error!r}") from None


if __name__ == "__main__":
    sys.exit(run("kubernetes", collect))
