"""The claimed device of the smoke run of pods: what is created, and what is read. The API is played."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rackwright.remote.programs import pod_claims
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

REQUEST = {"image": "rackwright.local/probe:1", "priority": "rackwright-smoke-1"}
NODE = {"name": "w0", "taints": []}
CLAIM = {"status": {"allocation": {"devices": {"results": [{"driver": "gpu.example.com", "device": "gpu-3"}]}}}}
RUNNING = {
    "metadata": {"uid": "x"},
    "spec": {"nodeName": "w0"},
    "status": {"phase": "Running", "resourceClaimStatuses": [{"name": "device", "resourceClaimName": "device-w0-device-x7"}]},
}
ENVIRON = "PATH=/usr/bin\0GPU_DEVICE_3=gpu-3\0GPU_DEVICE_3_RESOURCE_CLAIM=5f\0GPU_DEVICE_3_SHARING_STRATEGY=TimeSlicing\0"


def played(pod=RUNNING, *, refusal="", environ=ENVIRON):
    """Return a run whose API makes this pod of every one, and the requests that it got."""
    requests = []

    def post(path, body):
        if refusal:
            raise ApiRefusedError(404, refusal)
        requests.append((path, body))

    def make(body):
        requests.append(("pod", body))
        run.pods = {body["metadata"]["name"]: pod}
        return ""

    def get(path):
        requests.append((path, None))
        return CLAIM

    def inside(name, words):
        requests.append((name, words))
        return {"rc": 0, "out": environ, "said": ""}

    api = SimpleNamespace(post=post, get=get)
    run = SimpleNamespace(api=api, namespace="smoke", request=REQUEST, pods={}, make=make, inside=inside)
    run.until, run.drop = lambda test, _: test(run.pods), lambda *names: requests.append(("drop", names))
    return run, requests


def test_pod_claims_one_device_and_reads_its_environment():
    run, requests = played()
    found = pod_claims.claimed_device(run, NODE)
    assert (found["held"], found["given"], found["environment"]) == (["gpu-3"], ["gpu-3"], {"rc": 0, "out": "", "said": ""})
    paths = [path for path, _ in requests]
    api = "/apis/resource.k8s.io/v1/namespaces/smoke/"
    assert paths == [api + "resourceclaimtemplates", "pod", api + "resourceclaims/device-w0-device-x7", "device-w0", "drop"]
    (request,) = requests[0][1]["spec"]["spec"]["devices"]["requests"]
    spec = requests[1][1]["spec"]
    assert request == {"name": "device", "exactly": {"deviceClassName": "gpu.example.com"}}
    assert spec["resourceClaims"] == [{"name": "device", "resourceClaimTemplateName": "device-w0"}]
    assert spec["containers"][0]["resources"] == {"claims": [{"name": "device"}]}
    assert requests[3][1] == ["read", "/proc/self/environ"] and requests[4][1] == ("device-w0",)


def test_container_without_the_variable_was_given_nothing():
    run, _ = played(environ="PATH=/usr/bin\0GPU_DEVICE_3_RESOURCE_CLAIM=5f\0")
    assert pod_claims.claimed_device(run, NODE)["given"] == []


@pytest.mark.parametrize("refusal", ["", "the server could not find the requested resource"])
def test_pod_that_does_not_run_has_the_reason(refusal):
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "cannot allocate all claims"}
    pending = {"metadata": {"uid": "x"}, "spec": {}, "status": {"phase": "Pending", "conditions": [unscheduled]}}
    run, requests = played(pending, refusal=refusal)
    found = pod_claims.claimed_device(run, NODE)
    assert set(found) == {"pod"} and found["pod"]["why"] == (refusal or "cannot allocate all claims")
    assert requests[-1] == ("drop", ("device-w0",))
