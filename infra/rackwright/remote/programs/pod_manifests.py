"""Run on the node, imported by smoke_pods: the objects that a smoke run of pods makes. Python 3.9, standard library only."""

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
NOBODY = "rackwright-nobody"
"""A scheduler that does not exist: what is only to be admitted or refused never runs."""
LIFETIME = 120 * SLOWNESS
"""Seconds after which the kubelet ends a pod of ours even if the run was killed."""


def labelled(prefix: str, token: str) -> Object:
    """Metadata of an object of the run that lies in no namespace."""
    return {"name": prefix + "-" + token, "labels": dict(OWNER)}


def namespace(name: str, labels: dict[str, str] | None = None) -> Object:
    """A namespace of the run."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {}, **OWNER)}}


def account() -> Object:
    """The account that pods run under. The control plane makes it, too, but only a moment after the namespace."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def priority(name: str) -> Object:
    """Below everybody else's: whoever needs the room gets it, and nobody is moved for a check."""
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
    """A pod of one container that runs the probe. It is placed by the scheduler, as users' pods are."""
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
    """For a taint that the plan gives the node, and for no other.

    >>> toleration("gpu=yes:NoSchedule")
    {'key': 'gpu', 'operator': 'Equal', 'value': 'yes', 'effect': 'NoSchedule'}
    """
    said, _, effect = taint.rpartition(":")
    key, _, value = said.partition("=")
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def service(name: str) -> Object:
    """One address, and one port of every node, in front of the pods that answer."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": dict(OWNER)},
        "spec": {"type": "NodePort", "selector": {"answers": "yes"}, "ports": [{"port": PORT, "targetPort": PORT, "protocol": "TCP"}]},
    }


def volume(name: str, folder: str, namespace_name: str, uid: str) -> Object:
    """A folder of the shared file system, bound to one claim."""
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
    """The claim on it."""
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
    """A NetworkPolicy as a namespace of the plan has it."""
    metadata = {"name": planned["name"], "labels": dict(OWNER)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": planned["spec"]}


def quota(hard: dict[str, str]) -> Object:
    """A quota as a namespace of the plan has it."""
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota", "labels": dict(OWNER)}, "spec": {"hard": hard}}


def admitted(name: str, request: Object, requests: dict[str, str] | None = None, privileged: bool = False) -> Object:
    """A pod that is to be admitted or refused and never to run; it asks for no more than the strictest level allows, unless privileged."""
    made = pod(name, ["version"], request)
    made["spec"]["schedulerName"] = NOBODY
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
    """For each limit of a quota that one pod can pass alone: its requests."""
    found: dict[str, dict[str, str]] = {}
    for key, value in hard.items():
        resource = key.partition("requests.")[2]
        if resource == "memory":
            found[key] = {resource: str(int(value[:-2]) + 1) + value[-2:]}
        elif resource:
            found[key] = {resource: str(int(value) + 1)}
    return found
