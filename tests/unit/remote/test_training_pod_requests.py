"""The program on the submitting node, with a stand-in for the API of Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.remote.programs import training_pods
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

NAME = "rackwright-train-1"
OBJECTS = [{"kind": kind, "metadata": {"name": NAME}} for kind in ("TrainingRuntime", "TrainJob")]


def pod(
    index: int, node: str = "", *, attempt: int = 0, phase: str = "Running", waiting: str = "", deleted: bool = False
) -> dict[str, Any]:
    """Return a pod as the API lists it."""
    metadata: dict[str, Any] = {
        "name": f"{NAME}-node-0-{index}-x{attempt}",
        "labels": {training_pods.ATTEMPT: str(attempt)},
        "annotations": {training_pods.INDEX: str(index)},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-28T12:00:00Z"
    status: dict[str, Any] = {"phase": phase}
    if waiting:
        status["containerStatuses"] = [{"state": {"waiting": {"reason": waiting, "message": "because"}}}]
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


class Cluster:
    """The API of a namespace: its pods, the conditions of the TrainJob, and what was created and deleted."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.conditions: list[dict[str, str]] | None = []
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.refusals: list[ApiRefusedError] = []

    def get(self, path: str) -> Any:
        if "/pods?" in path:
            assert path.endswith("jobset-name%3D" + NAME)
            return {"items": self.pods}
        if self.conditions is None:
            raise ApiRefusedError(404, "not found")
        return {"status": {"conditions": self.conditions}}

    def post(self, path: str, body: dict[str, Any]) -> None:
        if self.refusals and body["kind"] == "TrainJob":
            raise self.refusals.pop(0)
        self.created.append(path)

    def delete(self, path: str) -> None:
        self.deleted.append(path.rpartition("/v1alpha1/")[2])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(training_pods, "client", lambda: found)
    monkeypatch.setattr(training_pods.time, "sleep", lambda _seconds: None)
    return found


def ask(folder: Path, action: str, **more: Any) -> dict[str, Any]:
    """Return the answer to a request about the run in the folder `a/b/run`."""
    request = {"action": action, "folder": str(folder / "a/b/run"), "namespace": "research", "name": NAME, **more}
    answer: dict[str, Any] = json.loads(json.dumps(training_pods.main(request)))
    return answer


def begin(folder: Path, **more: Any) -> dict[str, Any]:
    """Begin the run."""
    return ask(folder, "begin", **{"files": {"pod.sh": "#!/bin/sh\n"}, "needed_mib": 1, "objects": OBJECTS, **more})


def test_begin_writes_files_and_creates_objects(cluster: Cluster, tmp_path: Path) -> None:
    assert begin(tmp_path)["job"] == NAME and (tmp_path / "a/b/run/pod.sh").exists()
    assert [path.rpartition("/")[2] for path in cluster.created] == ["trainingruntimes", "trainjobs"]
    assert all("/namespaces/research/" in path for path in cluster.created)


def test_begin_refuses_full_file_system(cluster: Cluster, tmp_path: Path) -> None:
    answer = begin(tmp_path, needed_mib=10**12)
    assert answer["job"] is None and not cluster.created and not (tmp_path / "a/b/run").exists()


def test_begin_waits_until_trainer_knows_runtime(cluster: Cluster, tmp_path: Path) -> None:
    cluster.refusals = [ApiRefusedError(403, "specified trainingRuntime must be created before the TrainJob is created")] * 3
    assert begin(tmp_path)["error"] == "" and len(cluster.created) == 2


def test_refused_job_leaves_no_runtime(cluster: Cluster, tmp_path: Path) -> None:
    cluster.refusals = [ApiRefusedError(403, "trainjobs.trainer.kubeflow.org is forbidden")]
    assert begin(tmp_path)["error"] == "trainjobs.trainer.kubeflow.org is forbidden"
    assert cluster.deleted == [f"namespaces/research/trainjobs/{NAME}", f"namespaces/research/trainingruntimes/{NAME}"]


def test_begin_event_gets_nodes_in_order_of_pods(cluster: Cluster, tmp_path: Path) -> None:
    """The first pod of the attempt, which hosts rank 0, is the first node."""
    begin(tmp_path)
    cluster.pods = [pod(1, "worker0", attempt=1), pod(0, "worker1", attempt=1), pod(0, "worker0", phase="Failed")]
    line = {"event": "begin", "attempt": "1", "time": 1, "job": NAME, "nodes": ""}
    (tmp_path / "a/b/run/jobs.jsonl").write_text(json.dumps(line) + "\n")
    answer = ask(tmp_path, "follow", offsets={})
    assert [one["nodes"] for one in answer["lines"]] == ["worker1,worker0"]
    assert [(one["state"], one["nodes"]) for one in answer["jobs"]] == [("RUNNING", "worker1"), ("RUNNING", "worker0")]


def test_run_between_two_attempts_is_not_over(cluster: Cluster, tmp_path: Path) -> None:
    begin(tmp_path)
    assert [one["reason"] for one in ask(tmp_path, "follow", offsets={})["jobs"]] == ["no pod yet"]
    cluster.pods = [pod(1, "worker1", deleted=True)]
    assert [one["state"] for one in ask(tmp_path, "follow", offsets={})["jobs"]] == ["TERMINATING"]


@pytest.mark.parametrize(
    ("conditions", "pods", "reason"),
    [
        ([{"type": "Failed", "status": "True", "message": "maximum restarts reached"}], [], "maximum restarts reached"),
        ([], [pod(0, "worker0", phase="Pending", waiting="ErrImagePull", attempt=2)], "ErrImagePull: because"),
    ],
    ids=["restarts", "image"],
)
def test_run_that_cannot_go_on_ends_once(
    cluster: Cluster, tmp_path: Path, conditions: list[dict[str, str]], pods: list[dict[str, Any]], reason: str
) -> None:
    begin(tmp_path)
    cluster.conditions, cluster.pods = conditions, pods
    first = ask(tmp_path, "follow", offsets={})
    assert [(one["event"], one["job"], one["attempt"]) for one in first["lines"]] == [("gave-up", NAME, "2" if pods else "0")]
    written = (tmp_path / "a/b/run/gave-up.jsonl").read_text()
    assert ask(tmp_path, "follow", offsets=first["offsets"])["lines"] == []
    assert (tmp_path / "a/b/run/gave-up.jsonl").read_text() == written
    assert ask(tmp_path, "output")["text"] == reason + "\n"


@pytest.mark.parametrize("waiting", ["ContainerCreating", "PodInitializing"])
def test_starting_pod_may_go_on(cluster: Cluster, tmp_path: Path, waiting: str) -> None:
    begin(tmp_path)
    cluster.pods = [pod(0, "worker0", phase="Pending", waiting=waiting)]
    answer = ask(tmp_path, "follow", offsets={})
    assert answer["lines"] == [] and answer["jobs"][0]["reason"] == f"{waiting}: because"


def test_deleted_or_complete_run_has_no_pods_left(cluster: Cluster, tmp_path: Path) -> None:
    begin(tmp_path)
    cluster.conditions, cluster.pods = None, []
    assert ask(tmp_path, "follow", offsets={})["jobs"] == []
    cluster.conditions, cluster.pods = [{"type": "Complete", "status": "True"}], [pod(0, "worker0", phase="Succeeded")]
    assert ask(tmp_path, "follow", offsets={})["jobs"] == []


def test_cancelled_run_is_deleted(cluster: Cluster, tmp_path: Path) -> None:
    assert ask(tmp_path, "cancel")["error"] == ""
    assert cluster.deleted == [f"namespaces/research/trainjobs/{NAME}", f"namespaces/research/trainingruntimes/{NAME}"]


def test_refusal_is_an_answer(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> None:
        raise ApiRefusedError(403, "pods is forbidden")

    monkeypatch.setattr(cluster, "get", refuse)
    assert ask(tmp_path, "follow", offsets={})["error"] == "pods is forbidden"
