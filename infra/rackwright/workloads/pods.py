"""Parts of pods that several workloads share."""

from __future__ import annotations

from typing import Any, Final

from rackwright.workloads.site import GPU, HOST, Site

Object = dict[str, Any]
IMAGE: Final = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
"""Image of Kubeflow Trainer 2.1 for its own runtime (manifests/base/runtimes/torch_distributed.yaml)."""
PORT: Final = 29500
"""Port of the rendezvous: the default of torchrun (torch.distributed.run, --master-port)."""
TRAIN: Final = "/workspace/shared/train.py"


def resources(site: Site, gpus: int) -> Object:
    """Return limits for GPUs and for RDMA devices; the requests default to the limits."""
    return {"limits": {GPU: str(gpus), **site.rdma}}


def mounts(site: Site) -> list[Object]:
    """Return the mount points of shared memory and of the namespace's claim."""
    return [
        {"name": "shared-memory", "mountPath": "/dev/shm"},
        *([{"name": "shared", "mountPath": "/workspace/shared"}] if site.shared else []),
    ]


def volumes(site: Site) -> list[Object]:
    """Return shared memory, because the default of 64 MiB is too small for NCCL and for data loaders, and the claim."""
    return [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        *([{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}] if site.shared else []),
    ]


def close(site: Site, labels: dict[str, str]) -> Object:
    """Return an affinity that prefers one switch for all pods of a job."""
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
    """Return constraints that prefer a separate node for each replica of a service."""
    return [
        {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": labels}},
    ]


def container(site: Site, name: str, command: list[str]) -> Object:
    """Return the container of one worker of a job, with all GPUs of its node."""
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
