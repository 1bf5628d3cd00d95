"""A run on Kubernetes: a TrainJob, its runtime, and the script of its pods, which start the same program as on Slurm."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rackwright.workloads.site import GPU, HOST
from rackwright.workloads.training_job import ENVIRONMENT, PACKAGE, TrainingJob, launcher_options, program_below_run, program_options

Object = dict[str, Any]
API: Final = "trainer.kubeflow.org/v1alpha1"
STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label by which Trainer finds the job that trains (pkg/constants/constants.go of Trainer 2.1)."""
NODE: Final = "node"
"""Name that Trainer requires of that job's container; the runtimes of Trainer name the job so, too."""
ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
"""Label of pods with the number of restarts of their JobSet (api/jobset/v1alpha2 of JobSet 0.10)."""
CLAIM: Final = "shared"
_GRACE_S: Final = 5
"""Seconds between SIGTERM and SIGKILL of a pod: ranks write nothing at their end."""
_RANK: Final = {"cpu": "500m", "memory": "768Mi"}
"""Requests of a pod on CPUs: its rank takes 395 MiB, its launcher 326 (docs/workloads/training-kubernetes.md)."""


@dataclass(frozen=True)
class PodPlace:
    """Where the pods of a run are created, and as whom they run."""

    namespace: str
    image: str
    volume: str
    """Mount point of the namespace's claim, the same in pods and on the submitting node."""
    uid: int
    gid: int
    workers: tuple[str, ...]


class PodJob(Protocol):
    """What the objects of a run are made of."""

    @property
    def name(self) -> str:
        """Name of the objects; no other run has it."""

    @property
    def run(self) -> str:
        """Folder of the run on the shared file system."""

    @property
    def nodes(self) -> int:
        """Number of pods, each on a node of its own."""

    @property
    def ranks_per_node(self) -> int:
        """Processes of a pod, as its launcher counts them."""

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a pod; 0 for CPUs."""

    @property
    def minutes(self) -> int:
        """Time limit."""

    @property
    def restarts(self) -> int:
        """Attempts after the first one."""


def pod_files(job: TrainingJob) -> dict[str, str]:
    """Return all files of a run's folder by their path: the script of the pods, and the training program below `program`."""
    return {"pod.sh": render_script(job), **program_below_run()}


def run_objects(job: PodJob, place: PodPlace) -> list[Object]:
    """Return the runtime and the TrainJob, in the order of their creation. Trainer makes a JobSet of both.

    JobSet deletes and creates all pods again when one fails: `failurePolicy`. Trainer's own runtime has no such policy.
    """
    metadata = {"name": job.name, "namespace": place.namespace}
    return [
        {"apiVersion": API, "kind": "TrainingRuntime", "metadata": metadata, "spec": _runtime(job, place)},
        {
            "apiVersion": API,
            "kind": "TrainJob",
            "metadata": metadata,
            "spec": {
                "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": job.name},
                "trainer": {"numNodes": job.nodes, "numProcPerNode": job.ranks_per_node},
            },
        },
    ]


def _runtime(job: PodJob, place: PodPlace) -> Object:
    template = {
        "metadata": {"labels": {STEP: "trainer"}},
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": job.minutes * 60, "template": {"spec": _pod(job, place)}},
    }
    return {
        "mlPolicy": {"numNodes": job.nodes, "torch": {"numProcPerNode": job.ranks_per_node}},
        "template": {
            "spec": {
                "failurePolicy": {"maxRestarts": job.restarts},
                # The ranks meet under the name of the first pod before it is ready.
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "replicatedJobs": [{"name": NODE, "template": template}],
            }
        },
    }


def _pod(job: PodJob, place: PodPlace) -> Object:
    nodes = {"key": HOST, "operator": "In", "values": list(place.workers)}
    selector = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": job.name}}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": place.uid,
            "runAsGroup": place.gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [nodes]}]}}
        },
        # One pod on each node: a lost node then takes one pod with it.
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}],
        "containers": [_container(job, place)],
        "volumes": [
            {"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}},
            # NCCL exchanges data of a node's ranks there; the default is 64 MiB.
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _container(job: PodJob, place: PodPlace) -> Object:
    gpus = {"limits": {GPU: str(job.gpus_per_node)}} if job.gpus_per_node else {"requests": dict(_RANK)}
    values = {
        "HOME": "/tmp",
        "USER": f"u{place.uid}",
        "GLOO_SOCKET_IFNAME": "eth0",
        **({} if job.gpus_per_node else {"OMP_NUM_THREADS": "1"}),
    }
    return {
        "name": NODE,
        "image": place.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", f"{job.run}/pod.sh"],
        "env": [
            *({"name": name, "value": value} for name, value in values.items()),
            {"name": "ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{ATTEMPT}']"}}},
        ],
        "resources": gpus,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": CLAIM, "mountPath": place.volume}, {"name": "memory", "mountPath": "/dev/shm"}],
    }


def render_script(job: TrainingJob) -> str:
    """Return the script of a pod. The first pod of an attempt hosts the rendezvous."""
    return pod_script(
        job,
        _COMMAND.format(
            python=shlex.quote(job.python), package=PACKAGE, launcher=" ".join(launcher_options(job)), options=program_options(job)
        ),
    )


def pod_script(job: PodJob, command: str) -> str:
    """Return a script that runs a command, whose variables are `run`, `name` and `ATTEMPT`. The first pod of an attempt writes its events.

    The events have no nodes: a pod does not know those of the others, and `remote/programs/training_pods.py` adds them.
    """
    return _SCRIPT.format(run=shlex.quote(job.run), name=shlex.quote(job.name), environment=ENVIRONMENT, command=command)


_COMMAND: Final = """\
hosts=false
[ "$JOB_COMPLETION_INDEX" != 0 ] || hosts=true
{python} -m {package}.launch {launcher},is_host="$hosts" \\
    --rdzv-endpoint="$PET_MASTER_ADDR:$PET_MASTER_PORT" --rdzv-id="$name.$ATTEMPT" \\
    -m {package}.train --run "$run" --attempt "$ATTEMPT" {options}"""
_SCRIPT: Final = """#!/bin/sh
set -u
run={run}
name={name}
record() {{
    [ "$JOB_COMPLETION_INDEX" = 0 ] || return 0
    printf '{{"event": "%s", "attempt": "%s", "time": %s, "job": "%s", "nodes": ""}}\\n' \\
        "$1" "$ATTEMPT" "$(date +%s.%3N)" "$name" >> "$run/jobs.jsonl"
}}
{environment}
record begin
{command} >> "$run/output.txt" 2>&1
status=$?
if [ "$status" = 0 ]; then record end; else record failed; fi
exit "$status"
"""
