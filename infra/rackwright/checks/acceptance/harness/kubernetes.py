"""Jobs as Kubernetes runs them: the objects of each, the text its pods run, and what came back as `Output`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.checks.acceptance.harness import labelled
from rackwright.checks.acceptance.phase import Job, Output, Program, Task
from rackwright.inventory.reader import Inventory

Object = dict[str, Any]
STARTS: Final = 45
"""Seconds a pod may take to run on a node that was idle a moment ago."""
LIFE: Final = 300
"""Seconds after its end at which the control plane removes a Job of a run that was killed."""
RUN: Final = "rackwright-accept"
"""The label of whatever belongs to a run."""
PORT: Final = 29500
"""On which the first pod of a job is met: PyTorch's own default."""
GPU: Final = "nvidia.com/gpu"
CLAIM: Final = "shared"
_HOST: Final = "kubernetes.io/hostname"
_PRELUDE: Final = Path(__file__).with_name("pod_prelude.py")
_NAME: Final = 52
"""Letters of a Job's name: those of its pods are longer, and end at 63."""
_TIMED_OUT: Final = 124
"""Exit status of a command whose time was up: timeout(1)."""
_NO_MPI: Final = "its tasks find each other through MPI, and pods of several nodes have nobody who starts them so (the MPI operator does)"


@dataclass(frozen=True)
class Kubernetes:
    """The launcher."""

    declared: Inventory
    namespace: str
    mount: str | None
    """Where the namespace's claim lies: at the same place in pods and on the node that jobs are sent from."""
    uid: int
    gid: int

    def sent(self, program: Program) -> str:
        """The text that python3 is given on its command line."""
        return labelled.preceded(program, _PRELUDE)

    def request(self, job: Job, run: str, phase: str) -> dict[str, Any]:
        """A Job, and where pods must find each other, a service."""
        label = name_of(job, run, phase)
        pods, local = layout(job)
        file = f"jobs/{phase}-{job.name}.json"
        wants = {"pods": pods, **({f"requests.{GPU}": job.gpus_per_node * len(job.nodes)} if job.gpus_per_node else {})}
        return {
            "name": job.name,
            "label": label,
            "argv": ["kubectl", "create", f"--namespace={self.namespace}", "--filename", file],
            "file": file,
            "namespace": self.namespace,
            "run": run.lower(),
            "nodes": list(job.nodes),
            "pods": pods,
            "labelled": local > 1,
            "wants": wants,
            "objects": [*([self._service(label, run)] if _meets(job) else []), self._job(job, label, run)],
            "starts": STARTS,
            "seconds": job.limit_s + STARTS,
            "queued": bool(job.gpus_per_node),
            "refused": _NO_MPI if job.mpi and len(job.nodes) > 1 else "",
        }

    def files(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Its objects: `kubectl create` runs them again."""
        listed = {"apiVersion": "v1", "kind": "List", "items": request["objects"]}
        return {str(request["file"]): json.dumps(listed, indent=1) + "\n"}

    def output(self, job: Job, came: Mapping[str, Any]) -> Output:
        """What came back; a pod's host is the node that has the address which the kubelet gave."""
        addresses = {node["address"]: name for name, node in self.declared.nodes.items()}
        found = labelled.tasks(self.whole_lines(came["out"]))
        status, trouble = int(came["status"]), ""
        if status:
            late = f"no end after {came['ended'] - came['began']:.0f} s" if status == _TIMED_OUT else ""
            trouble = late or _last(came["err"]) or f"ended with status {status}"
        tasks = tuple(
            Task(said["RANK"], said["node"], addresses.get(said["host"], said["host"]), said["uid"], "\n".join(lines))
            for said, lines in found
        )
        name = next((str(said["job"]) for said, _ in found), "")
        return Output(job, name, status, trouble, tasks, came["err"], came["ended"] - came["began"], came.get("silent") or {})

    def heads(self, text: str) -> list[dict[str, Any]]:
        """What the tasks of a job said of themselves, by rank."""
        return [said for said, _ in labelled.tasks(self.whole_lines(text))]

    def whole_lines(self, text: str) -> list[tuple[int, str]]:
        """Nobody cuts them."""
        return labelled.whole_lines(text)

    def _job(self, job: Job, label: str, run: str) -> Object:
        pods, local = layout(job)
        template = {"metadata": {"labels": _labels(run)}, "spec": self._pod(job, label, pods, local)}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": label, "namespace": self.namespace, "labels": _labels(run)},
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimitPerIndex": 0,
                "activeDeadlineSeconds": job.limit_s + 2 * STARTS,
                "ttlSecondsAfterFinished": LIFE,
                "template": template,
            },
        }

    def _pod(self, job: Job, label: str, pods: int, local: int) -> Object:
        """Placed by the scheduler, as any user's: on the job's nodes, as many on one as on another."""
        pod: Object = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": self.uid,
                "runAsGroup": self.gid,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "tolerations": self._tolerations(job),
            "containers": [self._container(job, label, pods, local)],
        }
        if len(job.nodes) == 1:
            pod["nodeSelector"] = {_HOST: job.nodes[0]}
        else:
            pod |= _spread(job.nodes, label)
        if _meets(job):
            pod["subdomain"] = label
        pod["volumes"] = [
            *([{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}] if job.shared and self.mount else []),
            *([{"name": "memory", "emptyDir": {"medium": "Memory"}}] if job.gpus_per_node else []),
        ]
        return pod

    def _container(self, job: Job, label: str, pods: int, local: int) -> Object:
        """One task, or all of a node's where they share its GPUs."""
        requests = {"cpu": "50m", "memory": f"{job.memory_mib}Mi"}  # A node's system pods hold some of both, so that no job can have all.
        gpus = {"limits": {GPU: str(job.gpus_per_node * len(job.nodes) // pods)}} if job.gpus_per_node else {}
        return {
            "name": "task",
            "image": self.declared.cluster["scheduler"]["jobs"],
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-I", "-c", self.sent(job.program), *job.arguments],  # the image's, whatever the nodes carry
            "env": _environment(job, label, pods, local),
            "resources": {"requests": requests, **gpus},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            # A container's own 64 MiB of shared memory are too few for NCCL.
            "volumeMounts": [
                *([{"name": CLAIM, "mountPath": self.mount}] if job.shared and self.mount else []),
                *([{"name": "memory", "mountPath": "/dev/shm"}] if job.gpus_per_node else []),
            ],
        }

    def _service(self, label: str, run: str) -> Object:
        """No address of its own: the names of its pods. They are told before they are ready, because they wait for one another."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": label, "namespace": self.namespace, "labels": _labels(run)},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": label}},
        }

    def _tolerations(self, job: Job) -> list[Object]:
        """For the taints that the plan gives the job's nodes, and no others."""
        taints = {taint for one in self.declared.cluster["scheduler"]["nodes"] if one["name"] in job.nodes for taint in one["taints"]}
        return [_toleration(taint) for taint in sorted(taints)]


def layout(job: Job) -> tuple[int, int]:
    """Pods of a job, and tasks in each: GPUs belong to one pod, so that tasks which share a node's are in one; others have a pod each.

    >>> layout(Job("a", ("n0", "n1"), Program("p", ""), tasks_per_node=2))
    (4, 1)
    >>> layout(Job("b", ("n0",), Program("p", ""), tasks_per_node=8, gpus_per_node=8))
    (1, 8)
    """
    if job.gpus_per_node:
        return len(job.nodes), job.tasks_per_node
    return len(job.nodes) * job.tasks_per_node, 1


def name_of(job: Job, run: str, phase: str) -> str:
    """What the Job is called: part of no other run's names, and as long as names of pods allow."""
    name = f"accept-{run.lower()}-{phase[:2]}-{job.name}"
    if len(name) <= _NAME:
        return name
    return f"{name[: _NAME - 7]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _meets(job: Job) -> bool:
    """Whether its pods must find each other."""
    return len(job.nodes) > 1 and job.whole_nodes


def _spread(nodes: tuple[str, ...], label: str) -> Object:
    """On these nodes, evenly: which index comes to which of them is the scheduler's to say."""
    term = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": list(nodes)}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": _HOST,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"job-name": label}},
            }
        ],
    }


def _environment(job: Job, label: str, pods: int, local: int) -> list[Object]:
    told = {
        "JOB_ID": label,
        "WORLD_SIZE": str(pods * local),
        "LOCAL_WORLD_SIZE": str(local),
        "MASTER_ADDR": f"{label}-0.{label}" if _meets(job) else "localhost",
        "MASTER_PORT": str(PORT),
        **job.environment,
    }
    fields = {"NODE_NAME": "spec.nodeName", "HOST_ADDRESS": "status.hostIP"}
    return [
        *({"name": name, "value": value} for name, value in told.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


def _labels(run: str) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "rackwright-accept", RUN: run.lower()}


def _toleration(taint: str) -> Object:
    said, _, effect = taint.rpartition(":")
    key, _, value = said.partition("=")
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def _last(text: str) -> str:
    """The last words: of a traceback, the error."""
    return labelled.unlabelled(text).strip().rpartition("\n")[2]
