"""Pods of workloads, in parts that several of them share."""

from __future__ import annotations

from typing import Any, Final

from rackwright.workloads.site import GPU, HOST, Site

Object = dict[str, Any]
IMAGE: Final = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
"""What Kubeflow Trainer 2.1 names for its own runtime (manifests/base/runtimes/torch_distributed.yaml)."""
PORT: Final = 29500
"""Port of the rendezvous: the default of torchrun (torch.distributed.run, --master-port)."""
TRAIN: Final = "/workspace/shared/train.py"


def resources(site: Site, gpus: int) -> Object:
    """GPUs with what reaches others beside them; requests of these follow from limits."""
    return {"limits": {GPU: str(gpus), **site.rdma}}


def mounts(site: Site) -> list[Object]:
    """Where shared memory and the namespace's claim are seen."""
    return [
        {"name": "shared-memory", "mountPath": "/dev/shm"},
        *([{"name": "shared", "mountPath": "/workspace/shared"}] if site.shared else []),
    ]


def volumes(site: Site) -> list[Object]:
    """Shared memory, since a container's own 64 MiB are too few for NCCL and for loaders of data; the claim."""
    return [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        *([{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}] if site.shared else []),
    ]


def close(site: Site, labels: dict[str, str]) -> Object:
    """Pods of a job rather behind one switch than behind two."""
    return {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100 - index, "podAffinityTerm": {"topologyKey": level, "labelSelector": {"matchLabels": labels}}}
                for index, level in enumerate(reversed(site.levels))
                if level != HOST
            ]
        }
    }


def spread(labels: dict[str, str]) -> list[Object]:
    """Replicas of a service on nodes of their own as far as that goes."""
    return [
        {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": labels}},
    ]


def container(site: Site, name: str, command: list[str]) -> Object:
    """One worker of a job: all GPUs of its node."""
    made: Object = {
        "name": name,
        "image": IMAGE,
        "command": command,
        "resources": resources(site, site.gpus),
        "volumeMounts": mounts(site),
    }
    if site.rdma:  # Memory that a card reads must not be moved: rdma-core, ibv_reg_mr.
        made["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    return made
