"""The objects of a training run on Kubernetes match the schemas of Kubeflow Trainer and of Kubernetes."""

from __future__ import annotations

import dataclasses

import pytest
from kubernetes_schemas import breaches

from rackwright.workloads.finetune_job import FinetuneJob
from rackwright.workloads.training_job import TrainingJob
from rackwright.workloads.training_pods import PodPlace, run_objects

JOB = TrainingJob("train-1", "/mnt/s/train-1", "python3", "", 2, 1, 0, "10.244.0.0/16", "ddp", 10, 16)
PLACE = PodPlace("research", "rackwright.local/training:1", "/mnt/s", 2001, 2001, ("worker0", "worker1"))


@pytest.mark.parametrize("gpus", [0, 8])
def test_objects_match_schemas(gpus: int) -> None:
    job = dataclasses.replace(JOB, gpus_per_node=gpus, ranks_per_node=gpus or 1)
    assert [breach for one in run_objects(job, PLACE) for breach in breaches(one)] == []


@pytest.mark.parametrize("gpus", [0, 1])
def test_objects_of_fine_tuning_match_schemas(gpus: int) -> None:
    job = FinetuneJob("finetune-1", "/mnt/s/finetune-1", "/mnt/s/train-1/checkpoints", "python3", "", gpus, 150, 1, 60)
    runtime, train_job = run_objects(job, PLACE)
    assert [breach for one in (runtime, train_job) for breach in breaches(one)] == []
    spec = runtime["spec"]["template"]["spec"]
    assert spec["failurePolicy"] == {"maxRestarts": 0} and train_job["spec"]["trainer"] == {"numNodes": 1, "numProcPerNode": 1}


def test_schema_refuses_unknown_field() -> None:
    runtime = run_objects(JOB, PLACE)[0]
    runtime["spec"]["template"]["spec"]["failurePolicy"]["restarts"] = 1
    assert any("'restarts' was unexpected" in breach for breach in breaches(runtime))
