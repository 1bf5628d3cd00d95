"""Run on the node, imported by smoke_pods: the objects that a smoke run of pods creates. Python 3.9, standard library only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]

SLOWNESS = int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""The factor by which time limits grow on this node (commands.py)."""
GPU = "nvidia.com/gpu"
OWNER = {"app.kubernetes.io/managed-by": "rackwright-smoke"}
PORT = 8080
"""TCP port on which a pod of the checks listens. Chosen: unprivileged."""
NO_SCHEDULER = "rackwright-no-scheduler"
"""A scheduler that does not exist: a pod that is only to be admitted or refused never runs."""
LIFETIME = 120 * SLOWNESS
"""Seconds after which the kubelet ends a pod of the checks, even if the run was killed."""


def labelled(prefix: str, token: str) -> Object:
    """Return the metadata of a cluster-scoped object of the run."""
    return {"name": prefix + "-" + token, "labels": dict(OWNER)}


def namespace(name: str, labels: dict[str, str] | None = None) -> Object:
    """Return a namespace of the run."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {}, **OWNER)}}


def account() -> Object:
    """Return the service account of the pods. The control plane creates it too, but only a moment after the namespace."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def priority(name: str) -> Object:
    """Return a priority class below all others: other pods preempt the checks, and the checks preempt no pod."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": dict(OWNER)},
        "value": -1000,
        "preemptionPolicy": "Never",
        "description": "pods of a check",
    }


def pod(
    name: str,
    words: Sequence[str],
    request: Object,
    node: Object | None = None,
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    claim: str | None = None,
) -> Object:
    """Return a pod with one container that runs the probe. The scheduler places it, as it places users' pods."""
    container: Object = {"name": "probe", "image": request["image"], "imagePullPolicy": "IfNotPresent", "args": list(words)}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    spec: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": LIFETIME,
        "containers": [container],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node["name"]}
        spec["tolerations"] = [toleration(taint) for taint in node["taints"]]
        spec["priorityClassName"] = request["priority"]
    if claim:
        container["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
        spec["volumes"] = [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(OWNER, **(labels or {}))}, "spec": spec}


def toleration(taint: str) -> Object:
    """Return the toleration for one taint of the plan.

    >>> toleration("gpu=yes:NoSchedule")
    {'key': 'gpu', 'operator': 'Equal', 'value': 'yes', 'effect': 'NoSchedule'}
    """
    pair, _, effect = taint.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def service(name: str) -> Object:
    """Return a service with one address, and one port on every node, in front of the pods that respond."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": dict(OWNER)},
        "spec": {"type": "NodePort", "selector": {"answers": "yes"}, "ports": [{"port": PORT, "targetPort": PORT, "protocol": "TCP"}]},
    }


def volume(name: str, folder: str, namespace_name: str, uid: str) -> Object:
    """Return a volume on a folder of the shared file system, bound to one claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(OWNER)},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": name,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace_name, "name": "shared", "uid": uid},
            "hostPath": {"path": folder, "type": "Directory"},
        },
    }


def claim(volume_name: str) -> Object:
    """Return the claim on the volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared", "labels": dict(OWNER)},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": volume_name,
            "volumeName": volume_name,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def policy(planned: Object) -> Object:
    """Return a NetworkPolicy as the plan's namespace has it."""
    metadata = {"name": planned["name"], "labels": dict(OWNER)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": planned["spec"]}


def quota(hard: dict[str, str]) -> Object:
    """Return a quota as the plan's namespace has it."""
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota", "labels": dict(OWNER)}, "spec": {"hard": hard}}


def admitted(name: str, request: Object, requests: dict[str, str] | None = None, privileged: bool = False) -> Object:
    """Return a pod that is to be admitted or refused and never runs.

    Unless privileged, it requests no more than the strictest level allows.
    """
    made = pod(name, ["version"], request)
    made["spec"]["schedulerName"] = NO_SCHEDULER
    container = made["spec"]["containers"][0]
    wanted = dict({"cpu": "1m", "memory": "1Mi"}, **(requests or {}))
    limits = {key: value for key, value in wanted.items() if key == GPU}
    container["resources"] = dict({"requests": wanted}, **({"limits": limits} if limits else {}))
    container["securityContext"] = (
        {"privileged": True}
        if privileged
        else {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    )
    return made


def beyond(hard: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the requests that exceed each limit of a quota, for the limits that a single pod can exceed."""
    found: dict[str, dict[str, str]] = {}
    for key, value in hard.items():
        resource = key.partition("requests.")[2]
        if resource == "memory":
            found[key] = {resource: str(int(value[:-2]) + 1) + value[-2:]}
        elif resource:
            found[key] = {resource: str(int(value) + 1)}
    return found
