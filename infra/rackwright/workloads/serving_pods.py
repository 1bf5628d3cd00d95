"""The model server of `rackwright demo STACK serve`: its objects, its program, and the pod that sends requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from rackwright.workloads.scaled_objects import QueueTarget, reading_policy, scaled_object
from rackwright.workloads.site import HOST
from rackwright.workloads.training_job import program_files
from rackwright.workloads.training_pods import CLAIM, PodPlace

Object = dict[str, Any]
PACKAGE: Final = "rackwright.workloads.inference"
CONTAINER: Final = "server"
RUN: Final = "rackwright/run"
ROLE: Final = "rackwright/role"
PORT: Final = 8000
"""Port of the server: the default of `vllm serve` (--port)."""
_PROGRAM: Final = "/program"
"""Where the program is mounted: a ConfigMap, because each file takes 64 MiB on MooseFS (docs/workloads/training-slurm.md)."""
_BEFORE_STOP: Final = 5
"""Seconds between the deletion of a pod and SIGTERM, in which its endpoint is removed (Kubernetes: pod lifecycle, termination)."""
_GRACE: Final = 90
"""Seconds from the deletion to SIGKILL: 5 before SIGTERM, at most 60 of the server's drain, and a reserve."""
_SERVER: Final = {"cpu": "250m", "memory": "512Mi"}
"""Requests of a server: it took 351 MiB (docs/workloads/serving.md)."""
_LOAD: Final = {"cpu": "100m", "memory": "64Mi"}


@dataclass(frozen=True)
class ServingJob:
    """What the pods of a run get; all paths are those of nodes."""

    name: str
    """Name of all objects of the run; no other run has it."""
    run: str
    """Folder of the run on the shared file system."""
    checkpoints: str
    """Folder with the checkpoints of the training run."""
    checkpoint: str
    """Name of the checkpoint that is served first."""
    model_name: str = "rackwright-demo"
    max_tokens: int = 24
    steps: int = 0
    """A run of this kind has none."""

    def environment(self, checkpoint: str, revision: int) -> dict[str, str]:
        """Return the variables of the server that make a revision."""
        return {"CHECKPOINT": f"{self.checkpoints}/{checkpoint}", "REVISION": f"revision-{revision}"}


def serving_objects(job: ServingJob, place: PodPlace) -> list[Object]:
    """Return all objects of a run, in the order of their creation."""
    return [_program(job, place), *serving_manifests(job, place), _load(job, place)]


def serving_manifests(job: ServingJob, place: PodPlace) -> list[Object]:
    """Return Deployment, Service and disruption budget."""
    labels = _labels(job, "server")
    budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    service = {"type": "ClusterIP", "selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    # A new pod is ready before an old one ends: no request is without a server.
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    template = {"metadata": {"labels": labels}, "spec": _pod(job, place, labels)}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "strategy": strategy, "template": template}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(job, place), "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(job, place), "spec": service},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(job, place), "spec": budget},
    ]


def scaling_objects(job: ServingJob, place: PodPlace, target: QueueTarget, denies_traffic: bool) -> list[Object]:
    """Return KEDA's ScaledObject, and the policy that admits KEDA to the metrics where the namespace denies other traffic."""
    metadata = _metadata(job, place)
    policies = [reading_policy(metadata, _labels(job, "server"), target.port)] if denies_traffic else []
    return [*policies, scaled_object(metadata, target)]


def program_texts() -> dict[str, str]:
    """Return the texts of the server and of the training program by their path, with empty packages above them."""
    folder = files(PACKAGE)
    own = {
        f"{PACKAGE.replace('.', '/')}/{one.name}": one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name.endswith(".py")
    }
    return program_files() | dict(sorted(own.items()))


def _program(job: ServingJob, place: PodPlace) -> Object:
    texts = {_key(path): text for path, text in program_texts().items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(job, place), "data": texts}


def _key(path: str) -> str:
    """Return the key of a file: keys have no slash."""
    return path.replace("/", ".")


def _pod(job: ServingJob, place: PodPlace, labels: Mapping[str, str]) -> Object:
    spread = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": dict(labels)}}
    return {
        **_base(job, place),
        "terminationGracePeriodSeconds": _GRACE,
        "topologySpreadConstraints": [spread],
        "containers": [_server(job, place)],
    }


def _server(job: ServingJob, place: PodPlace) -> Object:
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    return {
        **_container(place, CONTAINER, "serve", {"model-name": job.model_name, "port": str(PORT)}),
        "env": _environment(place, {**job.environment(job.checkpoint, 1), "OMP_NUM_THREADS": "1"}),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"requests": dict(_SERVER)},
        # PyTorch is loaded within 3 s on an idle machine, and later on a busy one.
        "startupProbe": {**health, "periodSeconds": 1, "failureThreshold": 180},
        # A pod that is deleted leaves the Service at once. This probe must not remove one that is only slow: there may be no other.
        "readinessProbe": {**health, "periodSeconds": 2, "failureThreshold": 3},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
        "lifecycle": {"preStop": {"sleep": {"seconds": _BEFORE_STOP}}},
        "volumeMounts": [*_mounts(), {"name": CLAIM, "mountPath": place.volume, "readOnly": True}],
    }


def _load(job: ServingJob, place: PodPlace) -> Object:
    options = {"run": job.run, "host": job.name, "model-name": job.model_name, "max-tokens": str(job.max_tokens)}
    container = {
        **_container(place, "load", "load", options),
        "env": _environment(place, {}),
        "resources": {"requests": dict(_LOAD)},
        "volumeMounts": [*_mounts(), {"name": CLAIM, "mountPath": place.volume}],
    }
    metadata = {**_metadata(job, place, "load"), "name": f"{job.name}-load"}
    spec = {**_base(job, place), "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _base(job: ServingJob, place: PodPlace) -> Object:
    """Return what all pods of a run have in common."""
    nodes = {"key": HOST, "operator": "In", "values": list(place.workers)}
    term = {"nodeSelectorTerms": [{"matchExpressions": [nodes]}]}
    items = [{"key": _key(path), "path": path} for path in program_texts()]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": place.uid,
            "runAsGroup": place.gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
        "volumes": [
            {"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}},
            {"name": "program", "configMap": {"name": job.name, "items": items}},
        ],
    }


def _container(place: PodPlace, name: str, module: str, options: Mapping[str, str]) -> Object:
    return {
        "name": name,
        "image": place.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", f"{PACKAGE}.{module}", *(f"--{key}={value}" for key, value in options.items())],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _environment(place: PodPlace, more: Mapping[str, str]) -> list[Object]:
    fixed = {"HOME": "/tmp", "USER": f"u{place.uid}", "PYTHONPATH": _PROGRAM, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return [{"name": name, "value": value} for name, value in {**fixed, **more}.items()]


def _mounts() -> list[Object]:
    return [{"name": "program", "mountPath": _PROGRAM, "readOnly": True}]


def _labels(job: ServingJob, role: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "model-server", RUN: job.name, ROLE: role}


def _metadata(job: ServingJob, place: PodPlace, role: str = "server") -> Object:
    return {"name": job.name, "namespace": place.namespace, "labels": _labels(job, role)}
