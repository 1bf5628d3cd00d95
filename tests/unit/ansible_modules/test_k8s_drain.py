"""rackwright.cluster.k8s_drain: what it does to nodes and pods, against a cluster whose state is given in a few lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import k8s_drain as drain

Pod = drain.Pod
TRAIN = Pod("research", "train-0", "w1", "Job", False)
SINGLE = Pod("research", "shell", "w1", "", False)
SERVED = Pod("research", "web-1", "w1", "ReplicaSet", False)
DAEMON = Pod("kube-system", "gpu-plugin", "w1", "DaemonSet", False)
STATIC = Pod("kube-system", "etcd-w1", "w1", "Node", False)


def node(name: str, *, ready: bool = True, cordoned: bool = False, ours: bool = False) -> Any:
    return drain.Node(name, ready, cordoned, ours)


class Cluster(drain.Api):  # type: ignore[misc]
    """A cluster with the given nodes; pods that wait end, and nodes become Ready, at the n-th look."""

    def __init__(self, *nodes: Any, pods: tuple[Any, ...] = (), over_at: int = 3, ready_at: int = 0, refused: int = 0) -> None:
        self.live = {one.name: one for one in nodes}
        self.pods, self.over_at, self.ready_at, self.refused = list(pods), over_at, ready_at, refused
        self.looks = 0
        self.said: list[str] = []
        self.evicted: list[str] = []

    def call(self, *words: str, stdin: str = "") -> str:
        self.said.append(" ".join(words))
        return ""

    def nodes(self) -> dict[str, Any]:
        self.looks += 1
        return {name: one._replace(ready=one.ready or self.looks > self.ready_at > 0) for name, one in self.live.items()}

    def pods_on(self, name: str) -> list[Any]:
        self.looks += 1
        stays = drain.STAYS | drain.STARTED_ELSEWHERE
        return [pod for pod in self.pods if pod.node == name and (pod.owner in stays or self.looks <= self.over_at)]

    def evict(self, pod: Any) -> bool:
        self.refused -= 1
        if self.refused >= 0:
            return False
        self.evicted.append(pod.name)
        self.pods.remove(pod)
        return True


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(cluster: Cluster) -> Cluster:
        monkeypatch.setattr(drain, "Api", lambda: cluster)
        monkeypatch.setattr(drain.time, "sleep", lambda seconds: None)
        return cluster

    return put


def asked(state: str, *nodes: str, timeout: int = 5, **more: Any) -> dict[str, Any]:
    return {"nodes": list(nodes), "state": state, "timeout": timeout, **more}


class TestReading:
    def test_nodes(self) -> None:
        ready = {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}
        items = [
            {"metadata": {"name": "w0"}, "spec": {}, "status": ready},
            {"metadata": {"name": "w1", "annotations": {drain.MARK: "leaving"}}, "spec": {"unschedulable": True}},
            {"metadata": {"name": "w2", "annotations": None}, "spec": {"unschedulable": True}, "status": ready},
        ]
        nodes = drain.parse_nodes(json.dumps({"items": items}))
        assert nodes["w0"] == node("w0") and not nodes["w0"].is_held
        assert nodes["w1"] == node("w1", ready=False, cordoned=True, ours=True) and not nodes["w1"].is_held
        assert nodes["w2"] == node("w2", cordoned=True) and nodes["w2"].is_held

    def test_pods(self) -> None:
        def item(name: str, phase: str, *owners: dict[str, Any]) -> dict[str, Any]:
            metadata = {"namespace": "research", "name": name, "ownerReferences": list(owners)}
            return {"metadata": metadata, "spec": {"nodeName": "w1"}, "status": {"phase": phase}}

        job, other = {"kind": "Job", "controller": True}, {"kind": "ReplicaSet"}
        pods = drain.parse_pods(json.dumps({"items": [item("a", "Running", other, job), item("b", "Succeeded"), item("c", "Failed", job)]}))
        assert [(pod.owner, pod.over) for pod in pods] == [("Job", False), ("", True), ("Job", True)]

    def test_mirror_pod_without_owner_stays(self) -> None:
        """Some kubelets create it before they know the Node object that owns it."""
        metadata = {"namespace": "kube-system", "name": "etcd-w1", "annotations": {"kubernetes.io/config.mirror": "x"}}
        (pod,) = drain.parse_pods(json.dumps({"items": [{"metadata": metadata, "spec": {"nodeName": "w1"}}]}))
        assert pod.owner in drain.STAYS

    @pytest.mark.parametrize(
        ("said", "evicted"),
        [
            ("Cannot evict pod as it would violate the pod's disruption budget.", False),
            ('pods "a" is forbidden: unable to create new content in namespace x because it is being terminated', False),
            ('Error from server (NotFound): pods "a" not found', True),
        ],
        ids=["budget", "namespace-ends", "gone"],
    )
    def test_eviction_is_repeated_or_done(self, monkeypatch: pytest.MonkeyPatch, said: str, evicted: bool) -> None:
        def refuse(*_: str, **__: str) -> str:
            raise drain.ClusterError(said)

        api = drain.Api()
        monkeypatch.setattr(api, "call", refuse)
        assert api.evict(SERVED) is evicted

    def test_only_the_first_of_many_are_named(self) -> None:
        said = drain.named([Pod("research", f"p{number}", "w1", "", False) for number in range(12)])
        assert said.startswith("research/p0 on w1, ") and said.endswith("research/p9 on w1 and 2 more")


class TestDrained:
    def test_cordons_with_the_reason(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w0"), node("w1"), pods=(DAEMON, STATIC)))
        told = run(drain, asked("drained", "w1", reason="rolling"))
        assert not told["failed"] and told["actions"] == ["w1: cordon"] and told["changed"]
        assert cluster.said == [f"annotate --overwrite node w1 {drain.MARK}=rolling", "cordon w1"]

    def test_evicts_only_what_goes_on_elsewhere(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1"), pods=(DAEMON, STATIC, SERVED, TRAIN, SINGLE)))
        told = run(drain, asked("drained", "w1"))
        assert not told["failed"] and cluster.evicted == ["web-1"]
        assert told["actions"] == ["w1: cordon", "w1: evict research/web-1"]
        assert cluster.looks > cluster.over_at

    def test_names_jobs_and_single_pods_that_outlast_it(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1"), pods=(TRAIN, SINGLE, DAEMON), over_at=10**9))
        told = run(drain, asked("drained", "w1", timeout=0))
        assert told["failed"] and cluster.evicted == []
        assert "after 0 s still running: research/train-0 on w1, research/shell on w1 - the nodes stay cordoned" in told["msg"]
        assert "uncordon w1" not in cluster.said and told["actions"] == ["w1: cordon"]

    def test_a_disruption_budget_is_waited_for(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1"), pods=(SERVED,), refused=2))
        told = run(drain, asked("drained", "w1"))
        assert not told["failed"] and cluster.evicted == ["web-1"] and cluster.refused == -1

    def test_a_disruption_budget_that_never_yields_is_named(self, run: Any, given: Any) -> None:
        given(Cluster(node("w1"), pods=(SERVED,), refused=10**9))
        told = run(drain, asked("drained", "w1", timeout=0))
        assert told["failed"] and "research/web-1 on w1" in told["msg"] and told["actions"] == ["w1: cordon"]

    def test_an_administrators_cordon_stays_theirs(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1", cordoned=True), pods=(SERVED,)))
        told = run(drain, asked("drained", "w1"))
        assert cluster.said == [] and told["actions"] == ["w1: evict research/web-1"]

    def test_check_mode_tells_and_touches_nothing(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1"), pods=(SERVED, TRAIN), over_at=10**9))
        told = run(drain, asked("drained", "w1"), check=True)
        assert told["changed"] and told["actions"] == ["w1: cordon"] and cluster.said == cluster.evicted == []

    def test_a_node_that_the_cluster_does_not_know_is_gone_already(self, run: Any, given: Any) -> None:
        given(Cluster(node("w1")))
        told = run(drain, asked("drained", "storage3"))
        assert not told["failed"] and not told["changed"]


class TestResumed:
    def test_lifts_its_own(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w0"), node("w1", cordoned=True, ours=True)))
        told = run(drain, asked("resumed", "w0", "w1"))
        assert told["actions"] == ["w1: uncordon"] and told["held"] == []
        assert cluster.said == ["uncordon w1", f"annotate node w1 {drain.MARK}-"]

    def test_what_was_cut_off_between_mark_and_cordon_is_lifted(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1", ours=True)))
        assert run(drain, asked("resumed", "w1"))["changed"]
        assert f"annotate node w1 {drain.MARK}-" in cluster.said

    def test_keeps_and_tells_an_administrators(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w0"), node("w1", cordoned=True)))
        told = run(drain, asked("resumed", "w0", "w1"))
        assert cluster.said == [] and not told["changed"] and not told["failed"]
        assert told["held"] == told["warnings"] and told["held"][0].startswith("w1 is cordoned, but not by rackwright")

    def test_waits_until_nodes_are_ready(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1", ready=False, cordoned=True, ours=True), ready_at=3))
        assert run(drain, asked("resumed", "w1"))["actions"] == ["w1: uncordon"]
        assert cluster.looks > 3

    def test_names_nodes_that_never_are(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w0"), node("w1", ready=False, cordoned=True, ours=True)))
        told = run(drain, asked("resumed", "w0", "w1", "w9", timeout=0))
        assert told["failed"] and "not Ready after 0 s: w1, w9 - run" in told["msg"] and cluster.said == []

    def test_check_mode_does_not_wait(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1", ready=False, cordoned=True, ours=True)))
        assert run(drain, asked("resumed", "w1"), check=True)["actions"] == ["w1: uncordon"]
        assert cluster.said == [] and cluster.looks == 1


class TestAbsent:
    def test_forgets_those_that_are_known(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w0"), node("w1")))
        assert run(drain, asked("absent", "w1", "w9"))["actions"] == ["w1: delete"]
        assert cluster.said == ["delete node w1 --wait=false"]

    def test_check_mode_only_tells(self, run: Any, given: Any) -> None:
        cluster = given(Cluster(node("w1")))
        assert run(drain, asked("absent", "w1"), check=True)["changed"] and cluster.said == []


class TestKubectl:
    @pytest.fixture
    def says(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        def put(script: str) -> Path:
            (tmp_path / "kubectl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n{script}\n')
            (tmp_path / "kubectl").chmod(0o755)
            monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
            return tmp_path

        return put

    def test_eviction_goes_through_the_api_that_knows_budgets(self, says: Any) -> None:
        folder = says('cat > "$(dirname "$0")/body"')
        assert drain.Api().evict(SERVED)
        assert "create --raw /api/v1/namespaces/research/pods/web-1/eviction --filename=-" in (folder / "said").read_text()
        assert json.loads((folder / "body").read_text())["kind"] == "Eviction"

    @pytest.mark.parametrize(
        ("words", "gone"),
        [("Cannot evict pod as it would violate the pod's disruption budget.", False), ('pods "web-1" not found', True)],
        ids=["budget", "gone meanwhile"],
    )
    def test_answers_that_are_no_error(self, says: Any, words: str, gone: bool) -> None:
        says(f"cat >/dev/null; echo 'Error from server: {words.replace(chr(39), '')}' >&2; exit 1")
        assert drain.Api().evict(SERVED) is gone

    def test_other_answers_are(self, run: Any, says: Any) -> None:
        says("echo 'dial tcp: connection refused' >&2; exit 1")
        with pytest.raises(drain.ClusterError, match="connection refused"):
            drain.Api().evict(SERVED)
        told = run(drain, asked("resumed", "w1"))
        assert told["failed"] and "check that the API answers; run `journalctl -u kubelet`" in told["msg"]

    def test_what_is_over_is_on_no_node(self, says: Any) -> None:
        pod = {"metadata": {"namespace": "n", "name": "p"}, "spec": {"nodeName": "w1"}, "status": {"phase": "Succeeded"}}
        folder = says(f"echo '{json.dumps({'items': [pod]})}'")
        assert drain.Api().pods_on("w1") == []
        assert "--all-namespaces --field-selector=spec.nodeName=w1" in (folder / "said").read_text()
