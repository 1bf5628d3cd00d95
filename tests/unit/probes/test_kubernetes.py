"""Kubernetes checks on answers of healthy and faulty nodes, and the program that runs on a node."""

from __future__ import annotations

import base64
import struct
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_control_plane, test_etcd, test_kubelet, test_kubernetes, test_namespaces
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.tool_output import MissingAnswer
from rackwright.checks.cluster.probes.control import AuditLog, Etcd, SecretEncryption
from rackwright.checks.cluster.probes.kubelet import ANSWERS, Files, parse_complaints, parse_routes
from rackwright.checks.cluster.probes.kubernetes import PODS, Pod, parse_nodes, parse_pods, path_of
from rackwright.remote.programs import kubelet as kubelet_program
from rackwright.remote.programs import kubernetes_api

FOLDER = Path(__file__).parents[1] / "captured"
LATE = MissingAnswer("one", "no answer within 2 s")


def captured(probe, case="good"):
    """Return a captured answer, parsed."""
    return parse_nodes((FOLDER / probe / f"{case}.txt").read_text(encoding="utf-8"))


def ends(check, *arguments):
    """Run a check; return its failure message, or an empty text."""
    try:
        check(*arguments, Expect())
    except Mismatch as error:
        return str(error)
    return ""


class TestNodes:
    @pytest.mark.parametrize("name", ["login0", "worker0", "worker1"])
    def test_healthy_nodes_pass(self, name):
        node = captured("kubernetes-nodes")[name]
        assert not ends(test_kubernetes.test_node_is_ready, node)
        assert not ends(test_kubernetes.test_no_node_pressure, node)
        assert name == "login0" or not ends(test_kubernetes.test_gpus_allocatable, node)

    def test_node_with_unresponsive_kubelet_reports_reason(self):
        message = ends(test_kubernetes.test_node_is_ready, captured("kubernetes-nodes", "good-with-trouble")["worker1"])
        assert "Kubelet stopped posting node status" in message

    def test_node_without_network_reports_reason(self):
        message = ends(test_kubernetes.test_node_is_ready, captured("kubernetes-nodes", "good-with-trouble")["worker0"])
        assert "cni plugin not initialized" in message

    def test_full_disk_and_missing_gpu_are_named(self):
        node = captured("kubernetes-nodes", "good-with-trouble")["worker0"]
        assert "DiskPressure" in ends(test_kubernetes.test_no_node_pressure, node)
        assert "7 of 8" in ends(test_kubernetes.test_gpus_allocatable, node)

    def test_condition_taints_are_not_planned_taints(self):
        node = captured("kubernetes-nodes", "good-with-trouble")["worker1"]
        assert not ends(test_kubernetes.test_taints_match_plan, node, SimpleNamespace(taints=()))

    def test_manually_created_node_is_read(self):
        """The API server has no conditions for it, and checks of other nodes must not fail."""
        by_hand = {
            "metadata": {"name": "somebody-else"},
            "spec": {},
            "status": {"nodeInfo": {"kubeletVersion": "", "containerRuntimeVersion": ""}},
        }
        assert kubernetes_api.node(by_hand)["conditions"] == []


class TestKubelet:
    @pytest.mark.parametrize(
        ("said", "asked"),
        [([kubernetes_api.DEAD], 2), ([kubernetes_api.DEAD, kubernetes_api.DEAD], 2), (["dial tcp: i/o timeout"], 1), ([], 1)],
    )
    def test_dead_kubelet_connection_is_retried_once(self, said: list[str], asked: int):
        """After minutes without a network between API and kubelet, the API detects the dead connection at the first request."""
        paths, left = [], [*said]

        def get(path: str):
            paths.append(path)
            if left:
                raise kubernetes_api.ApiRefusedError(f"{path}: status 503: {left.pop(0)}")
            return {"kubeletconfig": {"port": 10250}}

        try:
            told = kubernetes_api.configuration(SimpleNamespace(get=get), "worker1")
        except kubernetes_api.ApiRefusedError:
            told = None
        assert (told is not None) == (len(said) < asked) and paths == ["/api/v1/nodes/worker1/proxy/configz"] * asked

    def test_unjoined_kubelet_reports_reason(self):
        answers = {"kubelet-files": Files({}, {}, {}, (), joined=False), "kubelet-complaints": ("command failed: Unauthorized",)}
        assert "Unauthorized" in ends(test_kubelet.test_node_registered, lambda probe: answers[probe.name])

    @pytest.mark.parametrize(
        ("said", "good"), [("status 401", True), ("status 403", True), ("status 200", False), ("No route to host", False)]
    )
    def test_refusal_differs_from_silence(self, said, good):
        found = {
            "anonymous request to the kubelet for pods": said,
            "anonymous request to the kubelet for its configuration": "status 401",
            "read-only port": "refused",
        }
        assert (not ends(test_kubelet.test_anonymous_requests_refused, {ANSWERS: found}.get)) is good

    @pytest.mark.parametrize(("said", "verdict"), [(LATE, "unknown"), ("status 200", "failed")])
    @pytest.mark.parametrize("check", [test_kubelet.test_anonymous_requests_refused, test_control_plane.test_anonymous_requests_refused])
    def test_time_out_is_neither_refusal_nor_admission(self, check, said, verdict):
        found = {
            "anonymous request to the kubelet for pods": said,
            "anonymous request to the kubelet for its configuration": LATE,
            "anonymous request to the API for nodes": said,
            "anonymous request to the API for secrets": LATE,
            "read-only port": "refused",
        }
        assert verdict_of(check, {ANSWERS: lambda: found})[0].value == verdict

    @pytest.mark.parametrize("error", [TimeoutError("_ssl.c:1012: The handshake operation timed out"), OSError("timed out")])
    def test_timed_out_handshake_is_no_answer(self, monkeypatch, error):
        def refuse(*_):
            raise error

        monkeypatch.setattr(kubelet_program.http.client.HTTPSConnection, "request", refuse)
        assert kubelet_program.web("127.0.0.1", 1, "/", kubelet_program.ssl._create_unverified_context()) == "no answer within 2 s"

    def test_latest_complaint_comes_first(self):
        text = 'E1122 13:18:45.5 1 a.go:1] "first" err="one"\nE1122 13:18:46.5 1 a.go:1] "second" err="say \\"two\\""\n== end\n'
        assert parse_complaints(text) == ('second: say \\"two\\"', "first: one")

    def test_existing_routes_are_not_reported(self):
        assert parse_routes("== 0\n") == ""
        assert "no route" in parse_routes("no route to a by b\n== 1\n")


class TestNodeProgram:
    @pytest.mark.parametrize("days", [5, 365, 20000])
    def test_certificate_end_is_read(self, tmp_path, days):
        """Times after 2049 have another form (RFC 5280, 4.1.2.5)."""
        path = tmp_path / "one.crt"
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-subj", "/CN=x", "-days", str(days)]
        subprocess.run([*made, "-out", str(path)], check=True, capture_output=True)
        result = subprocess.run(
            ["openssl", "x509", "-in", str(path), "-noout", "-enddate", "-dateopt", "iso_8601"], capture_output=True, text=True
        )
        from datetime import datetime

        planned = datetime.fromisoformat(result.stdout.strip().partition("=")[2].replace(" ", "T")).timestamp()
        assert kubelet_program.ends(path.read_bytes()) == planned

    def test_invalid_certificate_has_no_end(self):
        assert (
            kubelet_program.ends(b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(b"nothing") + b"\n-----END CERTIFICATE-----") is None
        )

    def test_dns_parser_reads_full_and_compressed_names(self):
        short = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 30, 4) + bytes([10, 245, 0, 1])
        alias = b"\x01a\x00" + struct.pack(">HHIH", 5, 1, 30, 2) + b"\xc0\x0c"
        answer = bytes(12) + alias + short
        assert list(kubelet_program.addresses(answer, 12, 2)) == ["10.245.0.1"]


class TestControl:
    @pytest.mark.parametrize(
        ("found", "good"),
        [
            (SecretEncryption({"secretbox": 3}, (), "secretbox"), True),
            (SecretEncryption({}, (), "secretbox"), True),
            (SecretEncryption({"secretbox": 3, "clear": 1}, ("default/x",), "secretbox"), False),
            (SecretEncryption({"secretbox": 3}, (), "identity"), False),
            (SecretEncryption({}, (), "none: the API server runs without it"), False),
        ],
    )
    def test_existing_and_new_secrets_must_be_encrypted(self, found, good):
        assert (not ends(test_control_plane.test_secrets_are_encrypted, lambda _: found)) is good

    @pytest.mark.parametrize(("found", "good"), [(AuditLog(True, 1, 5, ()), True), (AuditLog(False, 1, 5, ()), False)])
    def test_current_request_is_in_audit_log(self, found, good):
        assert (not ends(test_control_plane.test_audit_log_enabled, lambda _: found)) is good

    @pytest.mark.parametrize(("end", "good"), [("", False), ("2001-01-01T00:00:00Z", True), ("2999-01-01T00:00:00Z", False)])
    def test_bootstrap_tokens_expire(self, end, good):
        assert (not ends(test_control_plane.test_bootstrap_tokens_expire, lambda _: {"abcdef": end})) is good


class TestEtcd:
    @pytest.mark.parametrize(("size", "quota", "fails"), [(1, 2, False), (9, 10, True), (1900 * 1024**2, 0, True)])
    def test_space_limit_follows_quota_or_etcd_default(self, size, quota, fails):
        member = Etcd("", "1", "3.6.4", size, quota, {}, (), "refused", (0, 0o700))
        with pytest.raises(Mismatch) if fails else nullcontext():
            test_etcd.test_database_has_space(member, Expect(), 80)


class TestNamespaces:
    def test_privileges_of_user_pod_are_named(self):
        shell = Pod("research", "shell", {}, "worker1", "Running", False, "ImagePullBackOff", ("hostPID",))
        pods = (*parse_pods((FOLDER / "kubernetes-pods" / "good.txt").read_text(encoding="utf-8")), shell)
        cluster = SimpleNamespace(scheduler=SimpleNamespace(namespaces=[SimpleNamespace(name="research", pod_security="baseline")]))
        assert "research/shell: hostPID" in ends(test_namespaces.test_pods_have_no_rights_on_nodes, {PODS: pods}.get, cluster)

    def test_edited_object_is_named_with_difference(self):
        one = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"enforce": "baseline"}}}
        live = {path_of(one): {"metadata": {"name": "a", "labels": {"enforce": "privileged"}}, "apiVersion": "v1", "kind": "Namespace"}}
        message = ends(test_namespaces.test_objects_match_plan, lambda _: live, lambda: [one])
        assert "Namespace a: metadata.labels.enforce is privileged, not baseline" in message
