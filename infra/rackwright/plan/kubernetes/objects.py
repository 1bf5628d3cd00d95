"""Objects of a Kubernetes cluster: the one source for the role that applies them and for Pulumi."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rackwright.catalog.kubernetes import device_plugin, own_image
from rackwright.model.scheduler.kubernetes import Addon
from rackwright.plan.kubernetes.load_balancers import load_balancer_objects
from rackwright.plan.kubernetes.network import network_objects
from rackwright.plan.kubernetes.policies import policies
from rackwright.plan.kubernetes.queues import queues
from rackwright.plan.kubernetes.schema import Folder, Kubernetes, Namespace
from rackwright.plan.schema import PlanNode, Storage

Object = dict[str, Any]
GPU_PRESENT: Final = "nvidia.com/gpu.present"
"""The key that NVIDIA's feature discovery sets on nodes with GPUs."""
SHARED: Final = "shared"
"""Name of the claim on the cluster's shared file system, in each namespace that has one."""
_MANAGED: Final = {"app.kubernetes.io/managed-by": "rackwright"}


def objects(cluster: Kubernetes, nodes: Sequence[PlanNode], storage: Sequence[Storage]) -> tuple[Object, ...]:
    """Return all objects, each after those that it depends on."""
    return (
        *(_labelled(node.name, node.labels) for node in cluster.nodes),
        *network_objects(cluster),
        *_gpus(nodes),
        *(made for namespace in cluster.namespaces for made in _namespace(namespace, cluster, storage)),
        *(queues(cluster, nodes, _MANAGED) if any(addon.name == Addon.KUEUE for addon in cluster.addons) else ()),
        *(load_balancer_objects(cluster.load_balancer_addresses, _MANAGED) if cluster.load_balancer_addresses else ()),
    )


def _labelled(name: str, labels: dict[str, str]) -> Object:
    """Return a patch of a node's labels only: the node registers itself."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _gpus(nodes: Sequence[PlanNode]) -> Iterator[Object]:
    """Yield the device plugin; simulated GPUs have one of their own under the same resource name."""
    installed = [node.gpus for node in nodes if node.is_in and node.gpus]
    if not installed:
        return
    simulated = installed[0].simulated
    container: Object = {
        "name": "device-plugin",
        "image": own_image("gpu-device-plugin") if simulated else device_plugin(),
        "securityContext": {"privileged": True},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [
            {"name": "device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
            *(
                [{"name": "devices", "mountPath": "/dev"}, {"name": "state", "mountPath": "/var/lib/rackwright", "readOnly": True}]
                if simulated
                else []
            ),
        ],
    }
    volumes = [{"name": "device-plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    if simulated:
        volumes += [{"name": "devices", "hostPath": {"path": "/dev"}}, {"name": "state", "hostPath": {"path": "/var/lib/rackwright"}}]
    labels = {"app.kubernetes.io/name": "gpu-device-plugin"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "gpu-device-plugin", "namespace": "kube-system", "labels": {**_MANAGED, **labels}},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": "system-node-critical",
                    "automountServiceAccountToken": False,
                    "nodeSelector": {GPU_PRESENT: "true"},
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 2,
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


def _namespace(namespace: Namespace, cluster: Kubernetes, storage: Sequence[Storage]) -> Iterator[Object]:
    """Yield the namespace, its users' rights, its quota and its shared folders."""
    name = namespace.name
    levels = {f"pod-security.kubernetes.io/{mode}": namespace.pod_security.value for mode in ("enforce", "warn")}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**_MANAGED, **levels}}}
    if namespace.users:
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "users", "namespace": name, "labels": _MANAGED},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in namespace.users],
        }
    hard = _hard(namespace)
    if hard:
        yield {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota", "namespace": name, "labels": _MANAGED},
            "spec": {"hard": hard},
        }
    yield _limits(name)
    if cluster.network.enforces_network_policy:
        yield from policies(name, cluster.pods, cluster.network.nodes)
    if namespace.claim_mib is not None and storage:
        yield from _claim(namespace, storage[0])


def _hard(namespace: Namespace) -> dict[str, str]:
    """Return the limits of a quota in Kubernetes' format."""
    said = {
        "requests.nvidia.com/gpu": namespace.gpus,
        "requests.cpu": namespace.cpus,
        "requests.memory": f"{namespace.memory_mib}Mi" if namespace.memory_mib is not None else None,
        "pods": namespace.pods,
    }
    return {key: str(value) for key, value in said.items() if value is not None}


def _limits(namespace: str) -> Object:
    """Return default requests of containers: enough for placement, small enough not to block other pods."""
    request = {"cpu": "50m", "memory": "32Mi"}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": namespace, "labels": _MANAGED},
        "spec": {"limits": [{"type": "Container", "defaultRequest": request}]},
    }


def folders(cluster: Kubernetes, storage: Sequence[Storage]) -> tuple[Folder, ...]:
    """Return the folder of the claims: writable for every UID of an image, with the sticky bit against deletion by others."""
    return tuple(
        Folder(path=claim_folder(storage[0], one.name), mode="1777") for one in cluster.namespaces if one.claim_mib is not None and storage
    )


def claim_folder(storage: Storage, namespace: str) -> str:
    """Return the folder of a namespace's claim on the shared file system."""
    return f"{storage.mount}/kubernetes/{namespace}"


def _claim(namespace: Namespace, storage: Storage) -> Iterator[Object]:
    """Yield a claim on a folder of the shared file system, mounted on every node already.

    `Directory`: a node without the mount fails the pod.
    """
    volume, name, size = f"{namespace.name}-{SHARED}", namespace.name, f"{namespace.claim_mib}Mi"
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume, "labels": _MANAGED},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage.name,
            "claimRef": {"namespace": name, "name": SHARED},
            "hostPath": {"path": claim_folder(storage, name), "type": "Directory"},
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": SHARED, "namespace": name, "labels": _MANAGED},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage.name,
            "volumeName": volume,
            "resources": {"requests": {"storage": size}},
        },
    }
