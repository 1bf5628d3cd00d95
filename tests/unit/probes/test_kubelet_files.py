"""Files, disk space and configuration of kubelets, the answers of DNS servers, etcd's members, and the audit log, with odd values."""

from __future__ import annotations

import base64
import json
import socket
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_etcd, test_kubelet
from rackwright.checks.cluster.probes.control import Etcd
from rackwright.checks.cluster.probes.kubelet import FREE, parse_complaints
from rackwright.checks.cluster.probes.kubernetes import KUBELETS
from rackwright.checks.cluster.probes.podnetwork import parse_podnetwork
from rackwright.remote.programs import control_plane, kubelet


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("/var/lib/containerd  75%\n/var/lib/kubelet  75%\n", "passed"),
        ("/var/lib/containerd  75%\r\n/var/lib/kubelet 99%\r\n", "failed"),
        ("/var/lib/containerd  -\n/var/lib/kubelet  75%\n", "unknown"),
        ("/var/lib/containerd\n/var/lib/kubelet  75%\n", "unknown"),
        ("/var/lib/containerd  -\n/var/lib/kubelet  99%\n", "failed"),
        ("df: /run/user/1000/doc: Operation not permitted\n/var/lib/kubelet  75%\n", "passed"),
        ("/var/lib/kubelet  175%\n", "unknown"),
    ],
    ids=["good", "full-crlf", "no-figure", "no-folder", "full-beside-no-figure", "warning", "no-percentage"],
)
def test_disk_space_has_verdict(text, verdict):
    given = {"node": SimpleNamespace(name="worker0"), "limit": 10}
    assert verdict_of(test_kubelet.test_disk_space, answers_of({FREE: text}), **given)[0].value == verdict


SAFE = {"authentication": {"anonymous": {"enabled": False}}, "authorization": {"mode": "Webhook"}, "rotateCertificates": True}


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "passed"),
        ({"rotateCertificates": None}, "failed"),
        ({"readOnlyPort": 10255}, "failed"),
        ({"authentication": {"x509": {}}}, "unknown"),
    ],
    ids=["good", "no-rotation", "read-only-port", "not-reported"],
)
def test_authentication_has_verdict(changed, verdict):
    """A kubelet leaves out settings that are off."""
    running = {key: value for key, value in {**SAFE, **changed}.items() if value is not None}
    given = {"node": SimpleNamespace(name="worker0"), "cluster": SimpleNamespace(scheduler=SimpleNamespace(controllers=["login0"]))}
    answers = answers_of({KUBELETS: json.dumps({"worker0": running})})
    assert verdict_of(test_kubelet.test_authentication_enabled, answers, **given)[0].value == verdict


def test_complaint_without_quotes_is_read():
    text = 'F1127 10:00:00.0 1 a.go:1] cannot create certificate\nE1127 10:00:01.0 1 a.go:1] "Failed" err="no runtime" logger="x"\n== end\n'
    assert parse_complaints(text) == ("Failed: no runtime", "cannot create certificate")


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that the program reads in place of /etc and /var/lib."""
    monkeypatch.setattr(kubelet, "NETWORKS", str(tmp_path / "net.d"))
    monkeypatch.setattr(kubelet, "MANIFESTS", str(tmp_path / "manifests"))
    monkeypatch.setattr(kubelet, "KUBECONFIGS", str(tmp_path / "*.conf"))
    monkeypatch.setattr(kubelet, "KUBELET", str(tmp_path / "current.pem"))
    monkeypatch.setattr(kubelet, "CERTIFICATES", (str(tmp_path / "*.crt"), str(tmp_path / "current.pem")))
    monkeypatch.setattr(kubelet, "PRIVATE", (str(tmp_path / "*.conf"), str(tmp_path / "*.pem")))
    return tmp_path


def test_missing_folders_hold_nothing(etc):
    found = kubelet.files()
    assert (found["networks"], found["static_pods"], found["joined"]) == ({}, [], False)


def test_broken_link_of_kubelet_is_no_certificate(etc):
    """After a disk was full, kubelet-client-current.pem may point to a file that was never written."""
    (etc / "current.pem").symlink_to(etc / "kubelet-client-2026-11-27.pem")
    found = kubelet.files()
    assert found["certificates"] == {str(etc / "current.pem"): None} and not found["joined"] and found["private"] == {}


def test_cut_certificate_leaves_others_readable(etc):
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-subj", "/CN=x", "-days", "5"]
    subprocess.run([*made, "-out", str(etc / "good.crt")], check=True, capture_output=True)
    (etc / "cut.crt").write_text("-----BEGIN CERTIFICATE-----\nMIIDB\n-----END CERTIFICATE-----\n")
    (etc / "admin.conf").write_text("    client-certificate-data: LS0tL\n")
    found = {Path(path).name: left for path, left in kubelet.certificates().items()}
    assert found["cut.crt"] is None and found["admin.conf"] is None and found["good.crt"] > 4 * 86400


def test_folder_beside_manifests_is_no_static_pod(etc):
    folder = etc / "manifests"
    (folder / "old").mkdir(parents=True)
    for name in ("etcd.yaml", "etcd.yaml.bak", ".hidden.yaml"):
        (folder / name).touch()
    assert kubelet.files()["static_pods"] == ["etcd.yaml", "etcd.yaml.bak"]


@pytest.mark.parametrize("answer", [b"\x00\x01", struct.pack(">HHHHHH", 1, 0x8180, 1, 1, 0, 0) + b"\x01"], ids=["two-bytes", "no-record"])
def test_cut_dns_response_leaves_other_queries(answer):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        asking = subprocess.Popen(
            [
                "python3",
                "-c",
                f"from rackwright.remote.programs import kubelet as k; print(k.resolve('127.0.0.1', 'a.b', {server.getsockname()[1]}))",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        _, client = server.recvfrom(512)
        server.sendto(answer, client)
        assert asking.communicate(timeout=10)[0].strip() == f"a truncated response of {len(answer)} bytes"


C0 = {"name": "login0", "peerURLs": ["https://10.1.0.10:2380"], "clientURLs": ["https://10.1.0.10:2379"]}
WAITING = [{"peerURLs": ["https://10.1.0.11:2380"]}, {"name": "", "peerURLs": ["https://10.1.0.12:2380"], "isLearner": True}]


@pytest.mark.parametrize(
    ("members", "labels"),
    [
        ([C0], ["login0"]),
        ([C0, *WAITING], ["login0", "not started at https://10.1.0.11:2380", "not started at https://10.1.0.12:2380"]),
        ([C0, {**C0, "peerURLs": ["https://10.1.0.9:2380"]}], ["login0 at https://10.1.0.10:2380", "login0 at https://10.1.0.9:2380"]),
    ],
    ids=["one", "two-not-started", "name-used-twice"],
)
def test_members_of_etcd_keep_labels(members, labels):
    assert [control_plane.label(one, members) for one in members] == labels


@pytest.mark.parametrize(
    ("members", "verdict"),
    [
        ({"login0": ([], False)}, "passed"),
        ({"login0": ([], True)}, "failed"),
        ({"login0": ([], False), "not started at x": ([], True)}, "failed"),
        ({}, "failed"),
    ],
    ids=["good", "learner", "not-started", "none"],
)
def test_members_of_etcd_have_verdict(members, verdict):
    etcd = Etcd("", "1", "3.6.8", 1, 0, members, (), "refused", (0, 0o700))
    cluster = SimpleNamespace(scheduler=SimpleNamespace(controllers=["login0"]))
    assert verdict_of(test_etcd.test_members_match_plan, {}, etcd=etcd, cluster=cluster)[0].value == verdict


EVENT = {"verb": "create", "requestURI": "/api/v1/namespaces/a/secrets", "objectRef": {"resource": "secrets"}}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (json.dumps(EVENT).encode(), []),
        (json.dumps({**EVENT, "requestObject": {"kind": "Secret"}}).encode(), ["create /api/v1/namespaces/a/secrets"]),
        (b'{"kind":"Event","objectRef":{"resource":"secrets"},"requestURI":"/api', []),
        (b'{"kind":"Event","objectRef":{"resource":"secrets"},"requestObject":{"kind":"Secret","da', ["an incomplete line"]),
    ],
    ids=["metadata", "contents", "being-written", "contents-being-written"],
)
def test_contents_in_audit_event_are_found(line, found):
    assert control_plane.recorded_contents(line) == found


LINKS = [{}, {"ifname": "eth0", "mtu": 1500, "flags": ["UP"], "addr_info": [{"family": "inet", "local": "10.1.0.16"}]}]
ROUTES = [
    {"dst": "10.244.1.0/24", "gateway": "10.244.1.0", "dev": "flannel.1"},
    {"dst": "10.244.1.0/24", "gateway": "10.9.9.9", "metric": 1024},
]
SUBNET = "subnet\nFLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET={}\nFLANNEL_MTU={}\n"


def podnetwork(subnet="10.244.2.1/24", mtu="1450", end="\n"):
    """Return the network that a node with two routes to one range reports."""
    parts = [SUBNET.format(subnet, mtu), json.dumps(LINKS), json.dumps(ROUTES), "[]"]
    return parse_podnetwork("\n==\n".join(parts).replace("\n", end))


def test_route_with_lowest_metric_counts():
    assert podnetwork().routes == {"10.244.1.0/24": "via 10.244.1.0 dev flannel.1"}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_blank_interface_is_left_out(end):
    assert podnetwork(end=end).mtus == {"eth0": 1500} and podnetwork(end=end).range == "10.244.2.0/24"


def test_file_being_written_has_no_range():
    found = podnetwork("", "")
    assert (found.network, found.range, found.mtu) == ("10.244.0.0/16", "", 0)


def test_certificate_of_no_base64_has_no_end():
    assert kubelet.ends(b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(b"x")[:3] + b"\n-----END CERTIFICATE-----") is None
