"""Jobs over several nodes, as a JobSet, a TrainJob or a PyTorchJob, and their priority classes."""

from __future__ import annotations

from typing import Any, Final

from rackwright.workloads import pods
from rackwright.workloads.site import QUEUE, Site

Object = dict[str, Any]
_NAME: Final = "train"
_PRIORITIES: Final = (
    ("service", 1000, "PreemptLowerPriority", "Interactive services; preempts batch jobs."),
    ("batch", 100, "Never", "Batch jobs in queue order."),
    ("scavenger", 0, "Never", "Uses idle resources; can be preempted."),
)


def priorities(site: Site) -> list[Object]:
    """Return priority classes that any pod may use; none is the default, so that other pods keep their priority."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
            "description": description,
        }
        for name, value, policy, description in _PRIORITIES
    ]


def jobset(site: Site) -> list[Object]:
    """Return a JobSet with one pod for each node of the namespace's quota. JobSet gives pods DNS names; the first pod is the rendezvous."""
    labels = {"jobset.sigs.k8s.io/jobset-name": _NAME}
    count = site.pods
    torchrun = ["torchrun", f"--nnodes={count}", f"--nproc-per-node={site.gpus}", "--rdzv-backend=c10d"]
    command = [*torchrun, f"--rdzv-endpoint={_NAME}-workers-0-0.{_NAME}:{pods.PORT}", pods.TRAIN]
    pod = {
        "restartPolicy": "Never",
        "affinity": pods.close(site, labels),
        "containers": [pods.container(site, "worker", command)],
        "volumes": pods.volumes(site),
    }
    job = {"parallelism": count, "completions": count, "completionMode": "Indexed", "backoffLimit": 0, "template": {"spec": pod}}
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": _metadata(site),
            "spec": {
                "failurePolicy": {"maxRestarts": 3},
                "network": {"enableDNSHostnames": True, "subdomain": _NAME},
                "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}],
            },
        }
    ]


def trainjob(site: Site) -> list[Object]:
    """Return a TrainJob. Trainer's runtime `torch-distributed` configures the rendezvous. An alpha API: it may change."""
    return [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": _metadata(site),
            "spec": {
                "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch-distributed"},
                "trainer": {
                    "image": pods.IMAGE,
                    "command": ["torchrun", pods.TRAIN],
                    "numNodes": site.pods,
                    "numProcPerNode": site.gpus,
                    "resourcesPerNode": pods.resources(site, site.gpus),
                },
            },
        }
    ]


def pytorchjob(site: Site) -> list[Object]:
    """Return a PyTorchJob of Kubeflow 1: one master, and workers for all other nodes."""
    pod = {"containers": [pods.container(site, "pytorch", ["torchrun", pods.TRAIN])], "volumes": pods.volumes(site)}
    replica = {"restartPolicy": "OnFailure", "template": {"spec": pod}}
    others = site.pods - 1
    replicas = {"Master": {"replicas": 1, **replica}, **({"Worker": {"replicas": others, **replica}} if others else {})}
    return [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": _metadata(site),
            "spec": {"nprocPerNode": str(site.gpus), "pytorchReplicaSpecs": replicas},
        }
    ]


def _metadata(site: Site) -> Object:
    """Return metadata with the namespace's queue, which has no effect without Kueue."""
    return {"name": _NAME, "namespace": site.namespace, "labels": {QUEUE: site.namespace}}
