"""Jobs on Kubernetes: the objects of each, the text that its pods run, and the conversion of the result to `Output`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.checks.acceptance.harness import rank_prefixed_output
from rackwright.checks.acceptance.phase import Job, Output, Program, Task
from rackwright.inventory.reader import Inventory

Object = dict[str, Any]
STARTS: Final = 45
"""Seconds a pod may take to start on a node that was idle before."""
LIFE: Final = 300
"""Seconds after its end at which the control plane removes a Job of a run that was killed."""
RUN: Final = "rackwright-accept"
"""The label of all objects of a run."""
PORT: Final = 29500
"""Port on which the pods reach the first pod of a job: PyTorch's own default."""
GPU: Final = "nvidia.com/gpu"
CLAIM: Final = "shared"
_HOST: Final = "kubernetes.io/hostname"
_PRELUDE: Final = Path(__file__).with_name("pod_prelude.py")
_NAME: Final = 52
"""Maximum length of a Job's name: the names of its pods are longer, and limited to 63 characters."""
_TIMED_OUT: Final = 124
"""Exit status of a command that timed out: timeout(1)."""
_NO_MPI: Final = "its tasks use MPI, and starting MPI across pods of several nodes needs the MPI operator, which is not installed"


@dataclass(frozen=True)
class Kubernetes:
    """The launcher for Kubernetes."""

    declared: Inventory
    namespace: str
    mount: str | None
    """Mount point of the namespace's claim: the same in pods and on the node from which jobs are submitted."""
    uid: int
    gid: int

    def sent(self, program: Program) -> str:
        """Return the text that python3 gets on its command line."""
        return rank_prefixed_output.preceded(program, _PRELUDE)

    def request(self, job: Job, run: str, phase: str) -> dict[str, Any]:
        """Return a Job, and a service if its pods must find each other."""
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
        """Return the objects: `kubectl create` runs them again."""
        listed = {"apiVersion": "v1", "kind": "List", "items": request["objects"]}
        return {str(request["file"]): json.dumps(listed, indent=1) + "\n"}

    def output(self, job: Job, result: Mapping[str, Any]) -> Output:
        """Return the output of a job; a pod's host is the node that has the address which the kubelet reports."""
        addresses = {node["address"]: name for name, node in self.declared.nodes.items()}
        found = rank_prefixed_output.tasks(self.whole_lines(result["out"]))
        status, trouble = int(result["status"]), ""
        if status:
            late = f"no end after {result['ended'] - result['began']:.0f} s" if status == _TIMED_OUT else ""
            trouble = late or _last(result["err"]) or f"ended with status {status}"
        tasks = tuple(
            Task(head["RANK"], head["node"], addresses.get(head["host"], head["host"]), head["uid"], "\n".join(lines))
            for head, lines in found
        )
        name = next((str(head["job"]) for head, _ in found), "")
        return Output(job, name, status, trouble, tasks, result["err"], result["ended"] - result["began"], result.get("silent") or {})

    def heads(self, text: str) -> list[dict[str, Any]]:
        """Return the headers that the tasks of a job printed, by rank."""
        return [head for head, _ in rank_prefixed_output.tasks(self.whole_lines(text))]

    def whole_lines(self, text: str) -> list[tuple[int, str]]:
        """Return the lines as they are: Kubernetes does not cut them."""
        return rank_prefixed_output.whole_lines(text)

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
        """Return the pod template. The scheduler places the pods as it places those of any user: evenly on the job's nodes."""
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
        """Return the container of one task, or of all tasks of a node if they share its GPUs."""
        requests = {"cpu": "50m", "memory": f"{job.memory_mib}Mi"}  # A node's system pods use some of both, so that no job can request all.
        gpus = {"limits": {GPU: str(job.gpus_per_node * len(job.nodes) // pods)}} if job.gpus_per_node else {}
        return {
            "name": "task",
            "image": self.declared.cluster["scheduler"]["jobs"],
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-I", "-c", self.sent(job.program), *job.arguments],  # Python of the image, not of the node.
            "env": _environment(job, label, pods, local),
            "resources": {"requests": requests, **gpus},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            # The default of 64 MiB of shared memory is too small for NCCL.
            "volumeMounts": [
                *([{"name": CLAIM, "mountPath": self.mount}] if job.shared and self.mount else []),
                *([{"name": "memory", "mountPath": "/dev/shm"}] if job.gpus_per_node else []),
            ],
        }

    def _service(self, label: str, run: str) -> Object:
        """Return a headless service for the names of the pods.

        Names are published before pods are ready, because the pods wait for each other.
        """
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": label, "namespace": self.namespace, "labels": _labels(run)},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": label}},
        }

    def _tolerations(self, job: Job) -> list[Object]:
        """Return tolerations for the taints that the plan gives the job's nodes, and no others."""
        taints = {taint for one in self.declared.cluster["scheduler"]["nodes"] if one["name"] in job.nodes for taint in one["taints"]}
        return [_toleration(taint) for taint in sorted(taints)]


def layout(job: Job) -> tuple[int, int]:
    """Return the pods of a job and the tasks in each: tasks that share a node's GPUs run in one pod; others have a pod each.

    >>> layout(Job("a", ("n0", "n1"), Program("p", ""), tasks_per_node=2))
    (4, 1)
    >>> layout(Job("b", ("n0",), Program("p", ""), tasks_per_node=8, gpus_per_node=8))
    (1, 8)
    """
    if job.gpus_per_node:
        return len(job.nodes), job.tasks_per_node
    return len(job.nodes) * job.tasks_per_node, 1


def name_of(job: Job, run: str, phase: str) -> str:
    """Return the name of the Job: unique to the run, and short enough for the names of its pods."""
    name = f"accept-{run.lower()}-{phase[:2]}-{job.name}"
    if len(name) <= _NAME:
        return name
    return f"{name[: _NAME - 7]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _meets(job: Job) -> bool:
    """Return whether the pods of a job must find each other."""
    return len(job.nodes) > 1 and job.whole_nodes


def _spread(nodes: tuple[str, ...], label: str) -> Object:
    """Return the constraints that place pods evenly on these nodes; the scheduler decides which index runs on which node."""
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
    variables = {
        "JOB_ID": label,
        "WORLD_SIZE": str(pods * local),
        "LOCAL_WORLD_SIZE": str(local),
        "MASTER_ADDR": f"{label}-0.{label}" if _meets(job) else "localhost",
        "MASTER_PORT": str(PORT),
        **job.environment,
    }
    fields = {"NODE_NAME": "spec.nodeName", "HOST_ADDRESS": "status.hostIP"}
    return [
        *({"name": name, "value": value} for name, value in variables.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


def _labels(run: str) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "rackwright-accept", RUN: run.lower()}


def _toleration(taint: str) -> Object:
    pair, _, effect = taint.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def _last(text: str) -> str:
    """Return the last line: of a traceback, the error."""
    return rank_prefixed_output.unlabelled(text).strip().rpartition("\n")[2]
