"""The LeaderWorkerSet of the smoke run of pods: what is created, what its pods are asked, and what stays. The API is played."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from rackwright.remote.programs import pod_checks, pod_groups, smoke_pods
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

REQUEST = {"image": "rackwright.local/probe:1", "priority": "rackwright-smoke-1"}
NODES = [{"name": "w0", "taints": ["gpu=yes:NoSchedule"]}, {"name": "w1", "taints": []}, {"name": "w2", "taints": []}]
PATH = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/smoke/leaderworkersets"


def pod(address="10.0.0.1", **env):
    """Return a running pod whose container has these variables."""
    container = {"name": "probe", "env": [{"name": name, "value": value} for name, value in env.items()]}
    return {
        "metadata": {"uid": "x"},
        "spec": {"nodeName": "w0", "containers": [container]},
        "status": {"phase": "Running", "podIP": address},
    }


class PlayedApi:
    """An API that creates these pods for a set, and holds these warnings."""

    REPEATED = {
        "involvedObject": {"kind": "StatefulSet", "name": "group"}, "reason": "FailedCreate", "count": 13,
        "firstTimestamp": "2026-11-29T10:00:00Z", "lastTimestamp": "2026-11-29T10:00:05Z",
    }  # fmt: skip

    def __init__(self, pods=None, warnings=(), refusal=None):
        self.made, self.deleted, self.commands = [], [], []
        self.pods, self.warnings, self.refusal = pods or {}, warnings, refusal
        self.run = SimpleNamespace(
            api=self, namespace="smoke", path="/api/v1/namespaces/smoke", request=REQUEST, pods={}, left=lambda _: 0,
            until=lambda test, _: test(self.run.pods), inside=self.inside,
        )  # fmt: skip

    def post(self, path, body):
        if self.refusal:
            raise ApiRefusedError(404, self.refusal)
        self.made.append((path, body))
        self.run.pods = dict(self.pods)

    def get(self, path):
        assert path.startswith("/api/v1/namespaces/smoke/events?")
        return {"items": [dict(self.REPEATED, message=one) for one in self.warnings]}

    def delete(self, path):
        self.deleted.append(path)
        self.run.pods = {}

    def inside(self, name, words):
        self.commands.append((name, words[-1]))
        return {"rc": 0, "out": "", "said": ""}

    def group(self):
        return pod_groups.group(self.run, NODES)


GIVEN = {"LWS_LEADER_ADDRESS": "group-0.group.smoke"}
PODS = {"group-0": pod(**GIVEN), "group-0-1": pod("10.0.0.2", **GIVEN)}


def test_each_pod_requests_the_other_by_name_and_the_set_is_deleted():
    played = PlayedApi(PODS)
    found = played.group()
    assert played.commands == [("group-0-1", "http://group-0.group.smoke:8080/"), ("group-0", "http://group-0-1.group.smoke:8080/")]
    assert (set(found["asks"]), found["refused"]) == ({"leader", "worker"}, "")
    assert [path for path, _ in played.made] == [PATH] and played.deleted == [PATH + "/group"]


def test_set_has_two_pods_on_two_nodes_that_a_stateful_set_accepts():
    made = pod_groups.manifest(REQUEST, NODES[:2])["spec"]
    spec = made["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert (made["replicas"], made["leaderWorkerTemplate"]["size"]) == (1, 2)
    assert not {"activeDeadlineSeconds", "restartPolicy", "nodeSelector"} & set(spec), "a StatefulSet refuses the first two"
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["w0", "w1"] and [one["key"] for one in spec["tolerations"]] == ["gpu"]
    assert spec["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == {"group": "group"}


def test_refused_set_has_the_reason():
    played = PlayedApi(refusal="the server could not find the requested resource")
    assert played.group() == {"refused": "the server could not find the requested resource", "pods": {}, "asks": {}}


@pytest.mark.parametrize(("warnings", "said"), [((), ""), (("old", "failed calling webhook"), ": failed calling webhook")])
def test_pod_that_was_not_created_has_the_warning_of_its_owner(warnings, said):
    played = PlayedApi({"group-0": PODS["group-0"]}, warnings)
    found = played.group()
    assert found["pods"]["worker"]["why"] == "it was not created" + said and found["asks"] == {} and played.deleted
    assert found["pods"]["leader"] == pod_checks.seen(PODS["group-0"])


def test_set_whose_pods_cannot_be_created_is_not_waited_for():
    played = PlayedApi({}, ["failed calling webhook"])
    played.REPEATED = dict(played.REPEATED, lastTimestamp="2026-11-29T10:00:20Z")
    played.run.left, waits = (lambda _: 60), []
    played.run.until = lambda test, seconds: waits.append(seconds)
    found = played.group()["pods"]["leader"]["why"]
    assert found == "it was not created: FailedCreate on StatefulSet group, 13 times in 20 s: failed calling webhook"
    assert waits == [1, 10], "one wait for the pods, one for their end"


def test_container_without_the_variable_is_not_asked():
    played = PlayedApi({**PODS, "group-0-1": pod("10.0.0.2")})
    found = played.group()["asks"]
    assert found["leader"]["rc"] == 1 and "LWS_LEADER_ADDRESS" in found["leader"]["said"]
    assert [name for name, _ in played.commands] == ["group-0"]


@pytest.mark.parametrize(("seconds", "rc", "asked"), [(60, 0, 3), (0, 1, 1)], ids=["in-time", "too-late"])
def test_name_is_asked_for_until_cluster_dns_knows_it(seconds, rc, asked, monkeypatch):
    monkeypatch.setattr(pod_groups.time, "sleep", lambda _: None)
    unknown = {"rc": 1, "out": "", "said": "lookup group-0.group.smoke: no such host"}
    remaining = [unknown, unknown, {"rc": 0, "out": "group-0", "said": ""}]
    run = SimpleNamespace(inside=lambda name, words: remaining.pop(0))
    assert pod_groups._ask(run, "group-0-1", "group-0.group.smoke", time.monotonic() + seconds)["rc"] == rc
    assert 3 - len(remaining) == asked


@pytest.mark.parametrize("groups", [True, False])
def test_set_and_job_of_a_stopped_run_are_deleted_before_their_pods(groups):
    """Else their controllers would create the pods again."""
    deleted = []
    api = SimpleNamespace(delete=lambda path, grace=None: deleted.append(path), get=lambda path: {"items": []})
    request = {"groups": groups, "training": {} if not groups else {"image": "jobs"}, "scaling": False, "token": "1"}
    run = SimpleNamespace(api=api, namespace="smoke", path="/api/v1/namespaces/smoke", request=request, folder="", pods={})
    run.until, run.changed = lambda test, _: test(run.pods), threading.Condition()
    assert smoke_pods.take_back(run) == {"pods": [], "said": []}
    owners = [PATH + "/group", "/apis/kubeflow.org/v1/namespaces/smoke/pytorchjobs/training"]
    assert deleted[: 1 + 2 * groups] == owners * groups + ["/api/v1/namespaces/smoke/pods"]
