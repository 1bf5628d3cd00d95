"""The collectors of Kubernetes and etcd: objects in order, faults, and answers that cannot be read."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from .conftest import Collect, module, series

PLANNED = {"gpus": {"login0": 0, "worker0": 8, "worker1": 8}, "user_namespaces": ["research"]}


def node(name: str, ready: str = "True", gpus: str = "8", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "False"}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions, "allocatable": {"nvidia.com/gpu": gpus}}}


def pod(name: str, namespace: str = "kube-system", phase: str = "Running", restarts: int = 0, waits: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": waits}} if waits else {"running": {}}
    status = {"phase": phase, "containerStatuses": [{"name": "main", "restartCount": restarts, "state": state}]}
    return {"metadata": {"namespace": namespace, "name": name}, "status": status}


def owner(name: str, namespace: str = "kube-system", spec: Any = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec or {}, "status": status}


OBJECTS: dict[str, list[dict[str, Any]]] = {
    "nodes": [node("login0", gpus="0"), node("worker0", gpus="7", unschedulable=True), node("stranger", ready="Unknown")],
    "pods": [pod("dns-1", restarts=3), pod("dns-2", phase="Pending", waits="CrashLoopBackOff"), pod("job-x", "research", "Failed")],
    "deployments": [owner("dns", spec={"replicas": 2}, availableReplicas=1), owner("mine", "research", {"replicas": 9})],
    "daemonsets": [owner("plugin", desiredNumberScheduled=2, numberUnavailable=1), owner("quiet", desiredNumberScheduled=1)],
    "jobs": [
        owner("a", conditions=[{"type": "Failed", "status": "True"}]),
        owner("b", conditions=[{"type": "Complete", "status": "True"}]),
    ],
}


def written(**changed: list[dict[str, Any]]) -> dict[str, float]:
    collector = module("kubernetes")
    lists = {collector.PATHS[kind]: items for kind, items in {**OBJECTS, **changed}.items()}
    samples = collector.Samples()
    collector.add_objects(lists.__getitem__, PLANNED, samples)
    return series(samples.text())


@each_row(
    ("name", "value"),
    [
        pytest.param('kube_node_status_condition{condition="Ready",node="login0",status="true"}', 1, id="ready"),
        pytest.param('kube_node_status_condition{condition="Ready",node="worker1",status="true"}', 0, id="planned-and-absent"),
        pytest.param('kube_node_status_condition{condition="Ready",node="stranger",status="unknown"}', 1, id="unknown"),
        pytest.param('kube_node_spec_unschedulable{node="worker0"}', 1, id="cordoned"),
        pytest.param('kube_node_status_allocatable{node="worker0",resource="nvidia_com_gpu",unit="integer"}', 7, id="gpu-missing"),
        pytest.param('rackwright_kubernetes_gpus_planned{node="worker1"}', 8, id="planned-gpus"),
        pytest.param('kube_pod_status_phase{namespace="kube-system",phase="Pending",pod="dns-2"}', 1, id="pod-pending"),
        pytest.param('kube_pod_status_phase{namespace="kube-system",phase="Pending",pod="dns-1"}', 0, id="pod-running"),
        pytest.param('kube_pod_container_status_restarts_total{container="main",namespace="kube-system",pod="dns-1"}', 3, id="restarts"),
        pytest.param(
            'kube_pod_container_status_waiting_reason{container="main",namespace="kube-system",pod="dns-2",reason="CrashLoopBackOff"}',
            1,
            id="waits",
        ),
        pytest.param('rackwright_kubernetes_pods{namespace="research",phase="Failed"}', 1, id="pods-of-users"),
        pytest.param('kube_deployment_spec_replicas{deployment="dns",namespace="kube-system"}', 2, id="replicas"),
        pytest.param('kube_deployment_status_replicas_available{deployment="dns",namespace="kube-system"}', 1, id="available"),
        pytest.param('kube_daemonset_status_number_unavailable{daemonset="plugin",namespace="kube-system"}', 1, id="unavailable"),
        pytest.param('kube_daemonset_status_number_unavailable{daemonset="quiet",namespace="kube-system"}', 0, id="field-left-out"),
        pytest.param('kube_job_failed{condition="true",job_name="a",namespace="kube-system"}', 1, id="job-failed"),
        pytest.param('kube_job_failed{condition="true",job_name="b",namespace="kube-system"}', 0, id="job-complete"),
    ],
)
def test_object_is_written(name: str, value: float) -> None:
    assert written()[name] == value


def test_objects_of_users_are_left_out() -> None:
    assert not [name for name in written() if 'namespace="research"' in name and not name.startswith("rackwright_kubernetes_pods")]


def test_node_without_planned_gpus_has_no_series_of_them() -> None:
    assert not [name for name in written() if "gpus_planned" in name and "login0" in name]


@pytest.mark.parametrize("broken", [{"spec": {}}, {"metadata": {"name": "x"}, "spec": {}, "status": {"allocatable": []}}, "text"])
def test_object_of_another_form_is_no_success(broken: Any) -> None:
    collector = module("kubernetes")
    with pytest.raises(collector.CollectError, match="another form"):
        written(nodes=[broken], pods=[broken])


def test_missing_credential_is_no_success(collect: Collect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    collector = module("kubernetes")
    for text in (None, "", "server: https://10.0.0.1:6443\ncertificate-authority-data: AAAA\n"):
        if text is not None:
            (tmp_path / "conf").write_text(text)
        with pytest.raises(collector.CollectError):
            collector.connect(str(tmp_path / "conf"))


class Answers(http.server.BaseHTTPRequestHandler):
    """A daemon on plain HTTP."""

    status, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def daemon() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


ETCD = b"""# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
etcd_mvcc_db_total_size_in_bytes 2.0480e+06
etcd_server_quota_backend_bytes 2.147483648e+09
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 12
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 14
go_goroutines 200
"""


def test_etcd_is_copied_as_far_as_rules_read_it(daemon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = module("etcd")
    monkeypatch.setattr(collector, "PORT", daemon)
    Answers.status, Answers.body = 200, ETCD
    samples = collector.Samples()
    collector.collect({}, samples)
    found = series(samples.text())
    assert found["etcd_server_has_leader"] == 1 and found["etcd_mvcc_db_total_size_in_bytes"] == 2048000
    assert found['etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"}'] == 14
    assert "go_goroutines" not in found


@pytest.mark.parametrize(
    ("status", "body"), [(503, ETCD), (200, b""), (200, b"etcd_server_has_leader x\n")], ids=["status", "empty", "no-number"]
)
def test_etcd_without_metrics_is_no_success(daemon: int, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> None:
    collector = module("etcd")
    monkeypatch.setattr(collector, "PORT", daemon)
    Answers.status, Answers.body = status, body
    with pytest.raises(collector.CollectError, match="etcd"):
        collector.collect({}, collector.Samples())


def test_api_that_refuses_is_no_success(daemon: int) -> None:
    import http.client

    collector = module("kubernetes")
    Answers.status, Answers.body = 403, b"{}"
    with pytest.raises(collector.CollectError, match="status 403"):
        collector.reader(http.client.HTTPConnection("127.0.0.1", daemon))("/api/v1/nodes")
    Answers.status, Answers.body = 200, b'{"items": [{"kind": "Node"}]}'
    assert collector.reader(http.client.HTTPConnection("127.0.0.1", daemon))("/api/v1/nodes") == [{"kind": "Node"}]
