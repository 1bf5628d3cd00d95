"""The PyTorchJob of the smoke run of pods: what is created, what its containers print, and what stays. The API is played."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.probes.pods import rank_environment
from rackwright.remote.programs import pod_jobs
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

REQUEST = {"image": "probe:1", "priority": "rackwright-smoke-1", "training": {"image": "jobs:1", "program": "pass"}}
NODES = [{"name": "w0", "taints": ["gpu=yes:NoSchedule"]}, {"name": "w1", "taints": []}, {"name": "w2", "taints": []}]
WARNING = {"involvedObject": {"kind": "PyTorchJob", "name": "training"}, "message": "pods is forbidden"}
PATH = "/apis/kubeflow.org/v1/namespaces/smoke/pytorchjobs"


def pod(phase="Succeeded"):
    return {"metadata": {"uid": "x"}, "spec": {"nodeName": "w0"}, "status": {"phase": phase}}


def printed(rank, met, said=""):
    """Return the log of a container."""
    return "a line before\n" + json.dumps({"given": {"RANK": rank}, "met": met, "said": said, "complete": bool(met)}) + "\n"


PODS = {"training-master-0": pod(), "training-worker-0": pod()}
LOGS = {"training-master-0": printed("0", ["1"]), "training-worker-0": printed("1", ["0"])}


class PlayedApi:
    """An API whose operator creates these pods for a job, which print this and end the job so."""

    def __init__(self, pods=PODS, logs=LOGS, refusal=None, condition="Succeeded", event=WARNING):
        self.made, self.deleted, self.condition, self.event = [], [], condition, event
        self.pods, self.logs, self.refusal = pods, logs, refusal
        self.run = SimpleNamespace(
            api=self, namespace="smoke", path="/api/v1/namespaces/smoke", request=REQUEST, pods={}, left=lambda most: most * 2,
            until=lambda test, _: test(self.run.pods) or True, log=lambda name: {"text": self.logs[name], "said": ""},
        )  # fmt: skip

    def post(self, path, body):
        if self.refusal:
            raise ApiRefusedError(404, self.refusal)
        self.made.append((path, body))
        self.run.pods = dict(self.pods)

    def get(self, path):
        if path == PATH + "/training":
            running = {"type": "Running", "status": "False"}
            return {"status": {"conditions": [running, {"type": self.condition, "status": "True"}]}}
        assert path.startswith("/api/v1/namespaces/smoke/events?")
        return {"items": [self.event]}

    def delete(self, path):
        self.deleted.append(path)
        self.run.pods = {}

    def training(self):
        return pod_jobs.training(self.run, NODES)


def test_ranks_and_end_are_read_and_the_job_is_deleted():
    played = PlayedApi()
    found = played.training()
    assert {rank: (one["given"], one["met"]) for rank, one in found["ranks"].items()} == {
        "master": ({"RANK": "0"}, ["1"]),
        "worker": ({"RANK": "1"}, ["0"]),
    }
    assert (found["refused"], found["ended"]) == ("", "Succeeded")
    assert [path for path, _ in played.made] == [PATH] and played.deleted == [PATH + "/training"]


def test_job_has_a_master_and_a_worker_on_two_nodes():
    played = PlayedApi()
    played.training()
    spec = played.made[0][1]["spec"]
    assert (spec["nprocPerNode"], spec["runPolicy"]["cleanPodPolicy"]) == ("1", "None"), "ended pods have the logs"
    replicas = spec["pytorchReplicaSpecs"]
    pods = {name: one["template"]["spec"] for name, one in replicas.items()}
    hosts = {name: one["nodeSelector"]["kubernetes.io/hostname"] for name, one in pods.items()}
    assert hosts == {"Master": "w0", "Worker": "w2"}
    assert {(one["replicas"], one["restartPolicy"]) for one in replicas.values()} == {(1, "Never")}
    for one in pods.values():
        (container,) = one["containers"]
        assert (container["name"], container["image"]) == ("pytorch", "jobs:1"), "the webhook refuses other names"
        assert "restartPolicy" not in one and one["activeDeadlineSeconds"], "the kubelet ends pods of a run that was killed"
    assert [one["containers"][0]["command"][-1] for one in (pods["Master"], pods["Worker"])] == ["180", "90"]


def test_refused_job_has_the_reason():
    assert PlayedApi(refusal="not found").training() == {"refused": "not found", "pods": {}, "ranks": {}, "ended": ""}


def test_pod_that_was_not_created_has_the_warning_of_the_job():
    played = PlayedApi(pods={"training-worker-0": pod("Running")})
    found = played.training()
    assert found["pods"]["master"]["why"] == "it was not created: pods is forbidden" and found["ranks"] == {}
    assert played.deleted == [PATH + "/training"]


def test_pods_without_the_service_are_not_awaited_to_the_end():
    times = {"firstTimestamp": "2026-11-29T10:00:00Z", "lastTimestamp": "2026-11-29T10:00:20Z"}
    event = dict(WARNING, reason="FailedCreateService", count=12, message="services is forbidden", **times)
    played = PlayedApi({"training-master-0": pod("Running"), "training-worker-0": pod("Pending")}, event=event)
    played.run.until = lambda test, _: test(played.run.pods)
    found = played.training()
    said = "FailedCreateService on PyTorchJob training, 12 times in 20 s: services is forbidden"
    assert {name: one["why"] for name, one in found["pods"].items()} == {"master": said, "worker": said}
    assert found["ranks"] == {} and played.deleted == [PATH + "/training"]


def test_pod_that_ended_keeps_its_state_beside_a_failure_of_the_other():
    event = dict(WARNING, reason="FailedCreatePod", count=12, firstTimestamp="2026-11-29T10:00:00Z", lastTimestamp="2026-11-29T10:00:20Z")
    played = PlayedApi({"training-worker-0": pod("Succeeded")}, event=event)
    played.run.until = lambda test, _: test(played.run.pods)
    found = played.training()["pods"]
    assert found["worker"]["why"] == "" and found["master"]["why"].startswith("it was not created: FailedCreatePod")


def test_failed_worker_is_read_while_the_master_waits_for_it():
    pods = {"training-master-0": pod("Running"), "training-worker-0": pod("Failed")}
    logs = {"training-worker-0": printed("1", [], "training-master-0:23456: Name or service not known")}
    found = PlayedApi(pods, logs, condition="Failed").training()
    assert set(found["ranks"]) == {"worker"} and "not known" in found["ranks"]["worker"]["said"] and found["ended"] == "Failed"


@pytest.mark.parametrize(
    ("phases", "over"),
    [(("Running", "Succeeded"), False), (("Succeeded", "Succeeded"), True), (("Running", "Failed"), True), ((None, "Succeeded"), False)],
)
def test_job_is_over_when_all_pods_are_or_one_failed(phases, over):
    names = ("training-master-0", "training-worker-0")
    assert pod_jobs._are_over({name: pod(phase) for name, phase in zip(names, phases, strict=True) if phase}) is over


@pytest.mark.parametrize("text", ["", "Traceback\nModuleNotFoundError: json\n", "3\n"])
def test_container_without_a_document_is_quoted(text):
    found = PlayedApi(logs={**LOGS, "training-worker-0": text}).training()["ranks"]["worker"]
    assert found == {"given": None, "met": [], "said": text.strip() or "it printed nothing"}


def test_goes_on_is_no_end(monkeypatch):
    times = iter(range(0, 99, 15))
    monkeypatch.setattr(pod_jobs.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(pod_jobs.time, "sleep", lambda _: None)
    assert PlayedApi(condition="Restarting").training()["ended"] == ""


def test_names_of_pods_are_those_that_the_check_expects():
    assert rank_environment("worker")["MASTER_ADDR"] == pod_jobs.PODS["master"] == "training-master-0"
