"""The program on the submitting node, with a stand-in for the API of Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.remote.programs import serving_pods
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

NAME = "rackwright-serve-1"
OBJECTS = [{"kind": kind, "metadata": {"name": NAME}} for kind in ("ConfigMap", "Deployment", "Service")]
METRICS = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m",engine="0"} 3.0
vllm:num_requests_waiting{model_name="m",engine="1"} 2.0
vllm:num_requests_waiting_by_reason{model_name="m",reason="capacity"} 9.0
vllm:num_requests_running{model_name="m",engine="0"} 8
rackwright_model_server_info{device="CPU",checkpoint="step-1"} 1
"""


def pod(name: str, role: str = "server", *, ready: bool = True, deleted: bool = False, **status: Any) -> dict[str, Any]:
    """Return a pod as the API lists it."""
    metadata: dict[str, Any] = {"name": name, "labels": {serving_pods.ROLE: role}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-28T12:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": metadata, "spec": {"nodeName": "worker0"}, "status": {"phase": "Running", "conditions": conditions, **status}}


class Cluster:
    """The API of a namespace."""

    def __init__(self) -> None:
        self.pods = [pod("server-1"), pod("load-1", "load")]
        self.status = {"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}
        self.changed: list[tuple[str, str]] = []
        self.sent: list[Any] = []
        self.refuses = ""
        self.metrics: str | None = METRICS

    def get(self, path: str) -> Any:
        if path.endswith("/proxy/metrics"):
            if self.metrics is None:
                raise ApiRefusedError(502, "connection refused")
            assert path == "/api/v1/namespaces/research/pods/server-1:8000/proxy/metrics"
            return self.metrics
        if "/pods?" in path:
            assert path.endswith("rackwright%2Frun%3D" + NAME)
            return {"items": self.pods}
        return {"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": self.status}

    def post(self, path: str, body: dict[str, Any]) -> None:
        if body["kind"] == self.refuses:
            raise ApiRefusedError(403, "forbidden")
        self.changed.append(("POST", path))

    def delete(self, path: str) -> None:
        self.changed.append(("DELETE", path))

    def call(self, method: str, path: str, body: Any, kind: str) -> None:
        self.changed.append((method + " " + kind, path))
        self.sent.append(body)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(serving_pods, "client", lambda: found)
    return found


def ask(folder: Path, action: str, **more: Any) -> dict[str, Any]:
    """Return the answer to a request."""
    request = {"action": action, "folder": str(folder / "a/b/run"), "namespace": "research", "name": NAME, "objects": OBJECTS, **more}
    answer: dict[str, Any] = json.loads(json.dumps(serving_pods.main(request)))
    return answer


def begin(folder: Path, **more: Any) -> dict[str, Any]:
    return ask(folder, "begin", **{"files": {"load.json": "{}"}, "needed_mib": 1, **more})


def test_begin_writes_load_and_creates_objects(cluster: Cluster, tmp_path: Path) -> None:
    assert begin(tmp_path)["created"] and (tmp_path / "a/b/run/load.json").exists()
    assert [path.rpartition("/")[2] for _, path in cluster.changed] == ["configmaps", "deployments", "services"]


def test_refused_object_leaves_no_other(cluster: Cluster, tmp_path: Path) -> None:
    cluster.refuses = "Service"
    assert begin(tmp_path)["error"] == "Service: forbidden"
    assert [path.split("/")[-2] for method, path in cluster.changed if method == "DELETE"] == ["services", "deployments", "configmaps"]


def test_full_file_system_creates_nothing(cluster: Cluster, tmp_path: Path) -> None:
    assert not begin(tmp_path, needed_mib=10**12)["created"] and not cluster.changed


def test_observation_has_metrics_by_whole_name(cluster: Cluster, tmp_path: Path) -> None:
    begin(tmp_path)
    (tmp_path / "a/b/run/events-load.jsonl").write_text('{"event": "stage"}\n{"event": "requ')
    seen = ask(tmp_path, "observe", offsets={})
    (row,) = seen["pods"]
    assert (row["waiting"], row["running"], row["facts"]) == (5, 8, {"device": "CPU", "checkpoint": "step-1"})
    assert seen["is_rolled_out"] and seen["load"]["phase"] == "Running" and seen["lines"] == [{"event": "stage"}]


def test_pod_without_answer_has_no_metrics(cluster: Cluster, tmp_path: Path) -> None:
    begin(tmp_path)
    cluster.metrics = None
    (row,) = ask(tmp_path, "observe", offsets={})["pods"]
    assert row["ready"] and row["waiting"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"observedGeneration": 1},
        {"updatedReplicas": 0},
        {"availableReplicas": 0},
        {"replicas": 2},
    ],
)
def test_unfinished_update_is_not_rolled_out(cluster: Cluster, tmp_path: Path, change: dict[str, int]) -> None:
    begin(tmp_path)
    cluster.status.update(change)
    assert not ask(tmp_path, "observe", offsets={})["is_rolled_out"]


def test_pod_that_ends_delays_end_of_update(cluster: Cluster, tmp_path: Path) -> None:
    begin(tmp_path)
    cluster.metrics = None
    cluster.pods.append(pod("server-0", deleted=True))
    seen = ask(tmp_path, "observe", offsets={})
    assert not seen["is_rolled_out"] and [one["ready"] for one in seen["pods"]] == [True, False]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]}, "0/2 nodes"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]}, "ErrImagePull: no"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}, "its container ended with 1"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
    ],
)
def test_pod_says_why_it_does_not_run(status: dict[str, Any], reason: str) -> None:
    assert serving_pods.reason(pod("server-1", **status)) == reason


def test_update_and_scale_change_deployment(cluster: Cluster, tmp_path: Path) -> None:
    assert ask(tmp_path, "update", container="server", environment={"REVISION": "2"})["error"] == ""
    assert ask(tmp_path, "scale", replicas=3)["error"] == ""
    assert [path.rpartition(NAME)[2] for _, path in cluster.changed] == ["", "/scale"]
    assert cluster.changed[0][0] == "PATCH application/strategic-merge-patch+json", "a merge patch would drop other variables"
    assert cluster.sent[0]["spec"]["template"]["spec"]["containers"] == [{"name": "server", "env": [{"name": "REVISION", "value": "2"}]}]
    assert cluster.sent[1] == {"spec": {"replicas": 3}}


def test_cancel_names_pods_that_are_left(cluster: Cluster, tmp_path: Path) -> None:
    assert ask(tmp_path, "cancel")["left"] == ["server-1", "load-1"]
    cluster.pods = []
    assert ask(tmp_path, "cancel")["left"] == []


def test_checkpoints_are_newest_first(cluster: Cluster, tmp_path: Path) -> None:
    for step in ("step-00000001", "step-00000002", ".tmp-3"):
        (tmp_path / step).mkdir()
        (tmp_path / step / "manifest.json").write_text("{}")
    found = ask(tmp_path, "checkpoints", folders=[str(tmp_path / "none"), str(tmp_path)])
    assert (found["found"], found["checkpoints"]) == (str(tmp_path), ["step-00000002", "step-00000001"])
    assert ask(tmp_path, "checkpoints", folders=[])["checkpoints"] == []


def test_load_replaces_file(cluster: Cluster, tmp_path: Path) -> None:
    begin(tmp_path)
    ask(tmp_path, "load", load={"stage": "steady", "clients": 2})
    assert json.loads((tmp_path / "a/b/run/load.json").read_text())["clients"] == 2
