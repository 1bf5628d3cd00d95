"""The Deployment of the smoke run of pods that KEDA scales: what is created, what is read, and what stays. The API is played."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from rackwright.remote.programs import pod_scaling, smoke_pods
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

REQUEST = {"image": "rackwright.local/probe:1", "priority": "rackwright-smoke-1", "scaling": True}
NODES = [{"name": "w0", "taints": []}, {"name": "w1", "taints": ["gpu=yes:NoSchedule"]}]
SCALED = "/apis/keda.sh/v1alpha1/namespaces/smoke/scaledobjects/scaled"
DEPLOYMENT = "/apis/apps/v1/namespaces/smoke/deployments/scaled"
WORK = "/api/v1/namespaces/smoke/pods/scaled-work"


class PlayedApi:
    """An API with an operator that scales by the pod of work: `does` is what it can do."""

    DOES = frozenset({"watch", "start", "measure", "stop", "finalize"})

    def __init__(self, does=DOES, refusal="", error=""):
        self.does, self.refusal, self.error = does, refusal, error
        self.live, self.deleted, self.patched = {}, [], []
        self.replicas = 0
        self.run = SimpleNamespace(
            api=self, namespace="smoke", path="/api/v1/namespaces/smoke", request=dict(REQUEST), pods={}, left=lambda _: 0.02,
            until=lambda test, _: test(self.run.pods), make=self.make, drop=self.drop,
        )  # fmt: skip

    def post(self, path, body):
        if self.refusal and body["kind"] == self.refusal:
            raise ApiRefusedError(404, "no kind " + self.refusal)
        self.live[f"{path}/{body['metadata']['name']}"] = body

    def make(self, pod):
        if self.refusal == "Pod":
            return "exceeded quota"
        self.live[WORK] = pod
        if "start" in self.does:
            self.replicas = 1
            self.run.pods = {"scaled-a": self.pod("Running")}
        return ""

    def drop(self, *_names):
        self.live.pop(WORK)
        if "stop" in self.does:
            self.replicas, self.run.pods = 0, {}

    def pod(self, phase):
        labels = self.live[DEPLOYMENT]["spec"]["template"]["metadata"]["labels"]
        return {"metadata": {"uid": "x", "labels": labels}, "spec": {"nodeName": "w1"}, "status": {"phase": phase}}

    def get(self, path):
        if path.startswith("/apis/external.metrics.k8s.io/v1beta1/namespaces/smoke/s0-workload-smoke?"):
            if "measure" not in self.does:
                raise ApiRefusedError(503, "the server is currently unable to handle the request")
            return {"items": [{"metricName": "s0-workload-smoke", "value": str(len(self.run.pods))}]}
        if "/events?" in path:
            return {"items": [{"message": self.error, "lastTimestamp": "2026-11-29T14:00:00Z"}] if self.error else []}
        if path not in self.live:
            raise ApiRefusedError(404, path + " not found")
        if path == DEPLOYMENT:
            return {"spec": {"replicas": self.replicas}}
        watched = {"conditions": [{"type": "Ready", "status": "True", "message": "is ready"}], "externalMetricNames": ["s0-workload-smoke"]}
        return {"status": watched if "watch" in self.does else {}}

    def delete(self, path, grace=None):
        self.deleted.append(path)
        if path != SCALED or "finalize" in self.does:
            self.live.pop(path, None)

    def call(self, method, path, body, kind):
        assert (method, body, kind) == ("PATCH", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        self.patched.append(path)
        self.live.pop(path)

    def scaling(self):
        return pod_scaling.scaling(self.run, NODES)


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch):
    """Let no time pass between two requests."""
    monkeypatch.setattr(pod_scaling.time, "sleep", lambda _: None)


def test_work_starts_a_pod_and_its_end_stops_it():
    played = PlayedApi()
    found = played.scaling()
    assert (found["refused"], found["ready"], found["idle"], found["busy"], found["after"]) == ("", "", 0, 1, 0)
    assert found["pod"]["phase"] == "Running" and found["metric"] == {"value": "1", "said": ""}
    assert played.deleted == [SCALED, DEPLOYMENT, WORK] and played.live == {} and played.patched == []


def test_work_is_a_pod_that_no_scheduler_places_and_the_deployment_begins_empty():
    played = PlayedApi(does=PlayedApi.DOES - {"finalize"})
    made = {}
    played.post = lambda path, body: (made.update({body["kind"]: body}), played.live.update({f"{path}/{body['metadata']['name']}": body}))
    played.scaling()
    spec = made["Deployment"]["spec"]
    assert spec["replicas"] == 0 and spec["template"]["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "w1"}
    assert not {"activeDeadlineSeconds", "restartPolicy"} & set(spec["template"]["spec"])  # a Deployment may have neither
    work = pod_scaling.work(REQUEST)
    assert work["spec"]["schedulerName"] == "rackwright-no-scheduler"
    (trigger,) = made["ScaledObject"]["spec"]["triggers"]
    key, _, value = trigger["metadata"]["podSelector"].partition("=")
    assert work["metadata"]["labels"][key] == value != spec["template"]["metadata"]["labels"][key]  # its own pods are no work


@pytest.mark.parametrize(
    ("missing", "error", "expected"),
    [
        ("watch", "", {"ready": "the operator sets no condition"}),
        ("start", "deployments/scale is forbidden", {"busy": 0, "why": "deployments/scale is forbidden", "metric": None}),
        ("measure", "", {"busy": 1, "metric": {"value": "", "said": "the server is currently unable to handle the request"}}),
        ("stop", "the scaler has an error", {"after": 1, "why": "the scaler has an error"}),
    ],
)
def test_what_the_operator_cannot_do_is_reported(missing, error, expected):
    played = PlayedApi(does=PlayedApi.DOES - {missing}, error=error)
    found = played.scaling()
    assert {key: found[key] for key in expected} == expected
    assert played.live == {}


def test_without_an_operator_the_finalizer_is_removed():
    played = PlayedApi(does=frozenset())
    assert played.scaling()["ready"] and played.patched == [SCALED] and played.live == {}


@pytest.mark.parametrize("status", [404, 500])
def test_finalizer_that_is_removed_at_this_moment_is_no_failure(status):
    played = PlayedApi(does=frozenset({"watch"}))

    def late(*_):
        raise ApiRefusedError(status, "scaled")

    played.call = late
    if status == 404:
        assert played.scaling()["busy"] == 0 and DEPLOYMENT not in played.live
    else:
        with pytest.raises(ApiRefusedError):
            played.scaling()


@pytest.mark.parametrize("kind", ["Deployment", "ScaledObject", "Pod"])
def test_refused_object_has_the_reason_and_nothing_stays(kind):
    played = PlayedApi(refusal=kind)
    assert played.scaling()["refused"] == ("exceeded quota" if kind == "Pod" else f"no kind {kind}")
    assert played.live == {}


def test_end_of_a_run_deletes_the_scaled_object_before_pods_and_namespace():
    played = PlayedApi()
    run = played.run
    run.request |= {"token": "1", "groups": False, "training": None}
    run.folder, run.changed = "", threading.Condition()
    played.post(DEPLOYMENT.rpartition("/")[0], {"kind": "Deployment", "metadata": {"name": "scaled"}})
    namespaces = "/api/v1/namespaces?labelSelector=rackwright-smoke%3D1"
    get = played.get
    played.get = lambda path: {"items": [{"metadata": {"name": "smoke"}}]} if path == namespaces else get(path)
    assert smoke_pods.take_back(run) == {"pods": [], "said": []}
    assert played.deleted[:2] == [SCALED, DEPLOYMENT] and DEPLOYMENT not in played.live
    rest = [DEPLOYMENT, "/api/v1/namespaces/smoke/pods", "/api/v1/namespaces/smoke"]
    assert [one for one in played.deleted if one in rest] == rest
