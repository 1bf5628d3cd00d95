"""The program of the smoke run of pods on the node: its reading of the API's answers."""

from __future__ import annotations

import io
import json
import time
from types import SimpleNamespace

import pytest

from rackwright.remote.programs import dns, kubernetes_client, pod_checks, pod_manifests, smoke_pods


def frame(payload, kind=2):
    """Return a WebSocket frame of the server."""
    size = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + len(payload).to_bytes(2, "big")
    return bytes([0x80 | kind]) + size + payload


def conversation(*frames):
    """Return the result of a sequence of frames."""
    stream = io.BytesIO(b"".join(frames))
    return kubernetes_client._conversation(stream, time.time() + 5, SimpleNamespace(settimeout=lambda _: None))


SUCCESS = b"\x03" + json.dumps({"status": "Success"}).encode()
EXITED = {
    "status": "Failure",
    "message": "command terminated with exit code 7",
    "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
}


class TestExec:
    def test_stdout_and_stderr_are_separated(self):
        result = conversation(frame(b"\x01"), frame(b"\x01he"), frame(b"\x02oh"), frame(b"ping", 9), frame(b"\x01llo"), frame(SUCCESS))
        assert result == {"rc": 0, "out": "hello", "said": "oh"}

    def test_long_output_is_read(self):
        assert conversation(frame(b"\x01" + b"x" * 5000), frame(SUCCESS))["out"] == "x" * 5000

    def test_exit_code_is_returned(self):
        assert conversation(frame(b"\x03" + json.dumps(EXITED).encode()))["rc"] == 7

    def test_missing_command_never_ran(self):
        result = conversation(frame(b"\x03" + json.dumps({"status": "Failure", "message": "no such file"}).encode()))
        assert (result["rc"], result["said"]) == (None, "no such file")

    @pytest.mark.parametrize("frames", [(), (frame(b"", 8),), (frame(b"\x01half"),)])
    def test_early_connection_end_has_no_result(self, frames):
        assert conversation(*frames)["rc"] is None


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (None, "not a node"),
        ({"status": {"conditions": []}, "spec": {}}, "not ready: its kubelet posts no status"),
        ({"status": {"conditions": READY}, "spec": {"unschedulable": True}}, "cordoned"),
        ({"status": {"conditions": READY}, "spec": {"taints": [{"key": "disk", "effect": "NoSchedule"}]}}, "tainted disk"),
        ({"status": {"conditions": READY}, "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}, ""),
        ({"status": {"conditions": READY}, "spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}}, ""),
    ],
)
def test_unavailable_node_has_reason(node, said):
    found = smoke_pods.unschedulable_reason(node, ["gpu=yes:NoSchedule"])
    assert found.startswith(said) and bool(found) is bool(said)


def test_gpus_of_other_pods_are_counted():
    def pod(namespace, node, count):
        containers = [{"resources": {"requests": {"nvidia.com/gpu": count}}}, {}]
        return {"metadata": {"namespace": namespace}, "spec": {"nodeName": node, "containers": containers}}

    items = [
        pod("research", "w0", "2"),
        pod("research", "w0", "1"),
        pod("ours", "w1", "8"),
        pod("research", None, "4"),
        pod("x", "w1", "0"),
    ]
    assert smoke_pods.taken(SimpleNamespace(get=lambda _: {"items": items}), "ours") == {"w0": 3}


def test_pending_pod_has_reason():
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]}
    assert pod_checks.why(waiting) == "ErrImagePull: no such host"
    assert pod_checks.why({"reason": "UnexpectedAdmissionError", "message": "too few"}) == "UnexpectedAdmissionError: too few"
    assert pod_checks.why({"containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}) == ""


REFUSED = (1, "probe get: dial tcp 10.0.0.1:8080: connect: connection refused")


@pytest.mark.parametrize(
    ("answers", "seconds", "rc", "queries"),
    [([REFUSED, REFUSED, (0, "")], 60, 0, 3), ([REFUSED, (0, "")], 0, 1, 1), ([(1, "no route to host"), (0, "")], 60, 1, 1)],
)
def test_running_pod_that_does_not_listen_yet_is_queried_again(answers, seconds, rc, queries, monkeypatch):
    monkeypatch.setattr(pod_checks.time, "sleep", lambda _: None)
    pods = {"answers-w1": {"status": {"phase": "Running", "podIP": "10.0.0.1"}}}
    remaining = [{"rc": rc, "out": "", "said": said} for rc, said in answers]
    run = SimpleNamespace(pods=pods, left=lambda _: seconds, until=lambda test, _: test(pods), inside=lambda *_: remaining.pop(0))
    assert pod_checks.reach(run, "answers-w0", "answers-w1")["rc"] == rc
    assert len(answers) - len(remaining) == queries


@pytest.mark.parametrize("count", [1, 2, 9, 10, 64])
def test_peers_query_each_other(count):
    asks = [pod_checks.peers(place, count) for place in range(count)]
    assert all(place not in others for place, others in enumerate(asks))
    assert all(place in asks[other] for place, others in enumerate(asks) for other in others)


def test_every_reachable_quota_limit_is_tested():
    hard = {"requests.nvidia.com/gpu": "12", "requests.cpu": "4", "requests.memory": "64Mi", "pods": "40"}
    assert pod_manifests.beyond(hard) == {
        "requests.nvidia.com/gpu": {"nvidia.com/gpu": "13"},
        "requests.cpu": {"cpu": "5"},
        "requests.memory": {"memory": "65Mi"},
    }


ANSWER = (
    *("6162 8180 0001 0002 0000 0000", "0161 0162 00 0001 0001"),  # two answers for a.b.
    *("c00c 0005 0001 00000010 0004 0178 c00e", "c023 0001 0001 00000010 0004 0a530010"),  # an alias, x.b., and its address
)


def test_addresses_are_read_past_aliases():
    assert dns.addresses(bytes.fromhex("".join(ANSWER))) == ["10.83.0.16"]


def test_unresponsive_kubelet_affects_only_the_log():
    """An unresponsive node does not affect the results of the others."""

    def silent(method, path):
        raise TimeoutError("The read operation timed out")

    run = SimpleNamespace(api=SimpleNamespace(call=silent), path="/api/v1/namespaces/x")
    assert smoke_pods.Run.log(run, "plain") == {"text": "", "said": "The read operation timed out"}
