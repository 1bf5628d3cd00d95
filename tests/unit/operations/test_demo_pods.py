"""Training and fine-tuning runs on Kubernetes, followed to their end: the submitting node is replaced by answers in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.demo_cluster import Cluster, answer, pod_cluster, pod_event, run, steps, tune

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations.demo import following


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack like lab-k8s-train that is up."""
    return pod_cluster(tmp_path, monkeypatch)


def test_train_job_is_created_and_deleted_at_end(pods: Cluster) -> None:
    document = run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    begin = pods.asked[0]
    assert [one["kind"] for one in begin["objects"]] == ["TrainingRuntime", "TrainJob"] and begin["namespace"] == "research"
    name = begin["objects"][1]["metadata"]["name"]
    assert name == begin["name"] == begin["name"].lower() and "pod.sh" in begin["files"] and "job.sh" not in begin["files"]
    assert begin["folder"].startswith("/mnt/sharedfs/kubernetes/research/training/train-")
    assert pods.asked[-1]["action"] == "cancel" and pods.asked[-1]["name"] == name, "nothing of it stays in the cluster"
    assert document["verdict"]["rule"] == "baseline" and document["attempts"][0]["nodes"] == "worker0,worker1"


def test_worker_without_image_is_named_before_the_job_starts(pods: Cluster) -> None:
    """The image of the bundle is in no registry."""
    pods.image_of["worker1"] = False
    with pytest.raises(InputError, match=r"worker1 has 9 images, and not rackwright\.local/training:\S+") as found:
        run(pods, [])
    assert "rackwright up" in found.value.hint and "worker0" not in str(found.value)
    assert pods.asked == [], "nothing was submitted"


def test_image_of_each_worker_is_asked_for(pods: Cluster) -> None:
    run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    begin = next(one for one in pods.asked if one["action"] == "begin")
    assert [name for name, _ in pods.images] == ["worker0", "worker1"]
    assert all(image in json.dumps(begin["objects"]) for _, image in pods.images), "the image is that of the pods"


def test_unread_images_are_said_and_the_job_starts(pods: Cluster) -> None:
    pods.image_of["worker0"] = "the program did not end within 30 s"
    document = run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    assert document["run"] and [line for line in pods.said if "worker0: whether it has" in line and "did not end within 30 s" in line]


def test_image_of_a_registry_is_pulled(pods: Cluster) -> None:
    file = paths.inventory(pods.stack)
    described = yaml.safe_load(file.read_text())
    scheduler = described["all"]["vars"]["cluster"]["scheduler"]
    scheduler.pop("bundles_training_image")
    scheduler["training_image"] = "registry.example.org/torch:2.6"
    file.write_text(yaml.safe_dump(described))
    pods.image_of["worker1"] = False
    run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    assert [line for line in pods.said if line.startswith("worker1: does not have registry.example.org/torch:2.6")]


def test_worker_of_last_pod_is_killed(pods: Cluster) -> None:
    """The order of the pods is not that of the workers."""
    whole = [answer(pod_event("begin", 0, 1, "worker1,worker0")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))]
    run(pods, whole)
    killed = [answer(pod_event("begin", 0, 1, "worker1,worker0")), answer(*steps(0, 1, 7)), *[answer() for _ in range(40)]]
    killed += [answer(pod_event("failed", 0, 20), pod_event("begin", 1, 42, "worker1,worker0")), answer(*steps(1, 7, 10))]
    document = run(pods, [*killed, answer(pod_event("end", 1, 130), now=130)], kill_worker=True)
    assert pods.done == [("kill", "worker0"), ("start", "worker0")]
    assert document["verdict"]["result"] == "passed" and document["verdict"]["rule"] == "identical"
    assert [one["outcome"] for one in document["attempts"]] == ["failed", "completed"]


def test_interrupted_pods_are_deleted_and_named_if_left(pods: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CANCELLED", 0.0)
    with pytest.raises(UndeterminedError, match=r"its pods may still run \(pod 41 is RUNNING\)") as found:
        run(pods, [answer(pod_event("begin", 0, 1)), {"interrupt": True}, answer()])
    assert "run `kubectl -n research delete trainjob rackwright-train-" in str(found.value)


def test_newest_checkpoint_is_fine_tuned_as_one_pod(pods: Cluster) -> None:
    trained = run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    document = tune(pods, [answer(pod_event("begin", 0, 1, "worker1")), answer(pod_event("failed", 0, 9), pod_event("gave-up", 0, 9))])
    newest, begin, *_, last = [one for one in pods.asked if one["action"] != "follow"][-4:]
    assert newest["action"] == "newest" and newest["folders"] == [f"{trained['folder']}/checkpoints"]
    runtime, train_job = begin["objects"]
    assert (runtime["kind"], train_job["kind"]) == ("TrainingRuntime", "TrainJob") and train_job["spec"]["trainer"]["numNodes"] == 1
    assert runtime["metadata"]["name"] == begin["name"] == begin["name"].lower()
    assert f"--checkpoints {trained['folder']}/checkpoints" in begin["files"]["pod.sh"] and "job.sh" not in begin["files"]
    assert begin["folder"].startswith(trained["folder"].rpartition("/")[0] + "/finetune-")
    assert last["action"] == "cancel" and last["name"] == begin["name"], "nothing of it stays in the cluster"
    assert document["verdict"]["result"] == "failed" and document["node"] == "worker1"


def test_fine_tuning_needs_a_checkpoint_on_kubernetes(pods: Cluster) -> None:
    with pytest.raises(InputError, match="no training run is on record") as found:
        tune(pods, [])
    assert "rackwright demo lab-k8s-train train" in found.value.hint and pods.asked == []
