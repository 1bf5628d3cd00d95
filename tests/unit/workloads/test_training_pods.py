"""A training run on Kubernetes: its objects, and the script of its pods with a stand-in for Python."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rackwright.workloads.training_job import TrainingJob
from rackwright.workloads.training_pods import PodPlace, pod_files, render_script, run_objects

JOB = TrainingJob(
    name="rackwright-train-1",
    run="/mnt/s/kubernetes/research/training/train-1",
    python="python3",
    partition="",
    nodes=2,
    ranks_per_node=1,
    gpus_per_node=0,
    network="10.244.0.0/16",
    mode="ddp",
    steps=10,
    batch=16,
)
PLACE = PodPlace("research", "rackwright.local/training:1", "/mnt/s/kubernetes/research", 2001, 2001, ("worker0", "worker1"))


def pod_of(job: TrainingJob) -> dict[str, Any]:
    """Return the pods' description in the runtime."""
    runtime = run_objects(job, PLACE)[0]
    pod: dict[str, Any] = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod


def test_train_job_refers_to_its_own_runtime() -> None:
    runtime, train_job = run_objects(JOB, PLACE)
    assert (runtime["kind"], train_job["kind"]) == ("TrainingRuntime", "TrainJob")
    assert train_job["spec"]["runtimeRef"]["kind"] == runtime["kind"]
    assert train_job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] == train_job["metadata"]["name"]
    # Trainer 2.1 reads numProcPerNode of a TrainJob with `trainer` without testing that it is there (plugins/torch/torch.go).
    assert train_job["spec"]["trainer"] == {"numNodes": 2, "numProcPerNode": 1}


def test_all_pods_are_replaced_when_one_fails() -> None:
    spec = run_objects(JOB, PLACE)[0]["spec"]["template"]["spec"]
    assert spec["failurePolicy"] == {"maxRestarts": 5} and spec["network"]["publishNotReadyAddresses"]
    assert spec["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] == 0, "JobSet restarts all pods, not the Job one of them"


def test_pods_run_as_user_one_on_each_worker() -> None:
    pod = pod_of(JOB)
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (2001, True)
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["worker0", "worker1"]
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["whenUnsatisfiable"]) == (1, "DoNotSchedule")
    (container,) = pod["containers"]
    assert container["command"] == ["sh", f"{JOB.run}/pod.sh"] and container["name"] == "node", "Trainer requires this name"
    assert container["volumeMounts"][0]["mountPath"] == PLACE.volume and JOB.run.startswith(PLACE.volume)


@pytest.mark.parametrize(
    ("gpus", "resources"), [(0, {"requests": {"cpu": "500m", "memory": "768Mi"}}), (8, {"limits": {"nvidia.com/gpu": "8"}})]
)
def test_pod_requests_gpus_or_memory(gpus: int, resources: dict[str, Any]) -> None:
    container = pod_of(dataclasses.replace(JOB, gpus_per_node=gpus, ranks_per_node=gpus or 1))["containers"][0]
    assert container["resources"] == resources
    assert ("OMP_NUM_THREADS" in {one["name"] for one in container["env"]}) == (gpus == 0)


def test_run_holds_script_and_program() -> None:
    files = pod_files(JOB)
    assert files["pod.sh"] == render_script(JOB) and "program/rackwright/workloads/training/train.py" in files


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """Return the folder of a run; `python3` there writes its arguments and ends with the status in the file `status`."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\necho rank said\nexit $(cat {tmp_path}/status)\n')
    (tmp_path / "python3").chmod(0o755)
    (tmp_path / "status").write_text("0")
    return tmp_path


def start(folder: Path, index: int, attempt: int = 0) -> int:
    """Run the script as a pod of the run; return its status."""
    job = dataclasses.replace(JOB, run=str(folder))
    variables = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "JOB_COMPLETION_INDEX": str(index),
        "ATTEMPT": str(attempt),
        "PET_MASTER_ADDR": "first.train",
        "PET_MASTER_PORT": "29400",
    }
    return subprocess.run(["sh", "-c", render_script(job)], env=variables, check=False).returncode


def events(folder: Path) -> list[tuple[str, str]]:
    """Return the events and their attempts."""
    file = folder / "jobs.jsonl"
    return [(one["event"], one["attempt"]) for one in map(json.loads, file.read_text().splitlines())] if file.exists() else []


def test_first_pod_hosts_rendezvous_and_writes_events(pod: Path) -> None:
    assert start(pod, 0) == 0
    assert events(pod) == [("begin", "0"), ("end", "0")]
    called = (pod / "called").read_text()
    assert "--rdzv-conf=join_timeout=20,is_host=true" in called and "--rdzv-endpoint=first.train:29400" in called
    assert "--rdzv-id=rackwright-train-1.0" in called and f"--run {pod} --attempt 0 --mode=ddp" in called
    assert (pod / "output.txt").read_text() == "rank said\n"


def test_other_pods_join_and_write_no_events(pod: Path) -> None:
    assert start(pod, 1, attempt=2) == 0
    assert events(pod) == []
    assert "is_host=false" in (pod / "called").read_text() and "train-1.2 " in (pod / "called").read_text()


def test_failed_launcher_fails_pod(pod: Path) -> None:
    (pod / "status").write_text("3")
    assert (start(pod, 0, attempt=1), start(pod, 1, attempt=1)) == (3, 3)
    assert events(pod) == [("begin", "1"), ("failed", "1")]
