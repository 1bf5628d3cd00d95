"""kubelet_certificates: which requests it approves, and when a node counts as certified. openssl is real, kubectl is played."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import kubelet_certificates as certificates

NODES = [{"name": "worker0", "address": "10.0.0.3"}]
SANS = "DNS:worker0,IP:10.0.0.3"


def request(folder: Path, subject: str = "/O=system:nodes/CN=system:node:worker0", sans: str = SANS) -> str:
    """A request as a kubelet makes it."""
    key = folder / "key.pem"
    command = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key)]
    extra = ["-addext", f"subjectAltName={sans}"] if sans else []
    done = subprocess.run([*command, "-subj", subject, *extra], capture_output=True, text=True, check=True)
    return base64.b64encode(done.stdout.encode()).decode()


class Played:
    """A cluster with one request, and a kubelet that serves its certificate once that is approved."""

    def __init__(self, asked: str, user: str = "system:node:worker0", signer: str = certificates.SIGNER) -> None:
        spec = {"request": asked, "username": user, "signerName": signer}
        self.item: dict[str, Any] = {"metadata": {"name": "csr-1"}, "spec": spec, "status": {}}
        self.approved: list[str] = []
        self.real = certificates.run

    def run(self, *words: str, stdin: str = "") -> str:
        if words[0] == "openssl":
            return self.real(*words, stdin=stdin)
        if "get" in words:
            return json.dumps({"items": [self.item]})
        assert words[2:4] == ("certificate", "approve")
        self.approved.append(words[-1])
        self.item["status"] = {"conditions": [{"type": "Approved"}]}
        return ""

    def unverified(self, nodes: Any, authority: str) -> dict[str, str]:
        return {} if self.approved else {"worker0": "self-signed certificate"}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    def start(played: Played) -> Played:
        monkeypatch.setattr(certificates, "run", played.run)
        monkeypatch.setattr(certificates, "unverified", played.unverified)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        return played

    return start


def test_a_node_that_asks_for_itself_is_approved(run: Any, play: Any, tmp_path: Path) -> None:
    played = play(Played(request(tmp_path)))
    told = run(certificates, {"nodes": NODES})
    assert told["approved"] == ["system:node:worker0 csr-1"] and told["changed"] and not told["failed"]
    assert not run(certificates, {"nodes": NODES})["changed"] and played.approved == ["csr-1"]


def test_check_mode_only_tells(run: Any, play: Any, tmp_path: Path) -> None:
    played = play(Played(request(tmp_path)))
    told = run(certificates, {"nodes": NODES}, check=True)
    assert told["approved"] and told["changed"] and played.approved == []


@pytest.mark.parametrize(
    ("made", "user"),
    [
        ({"sans": "DNS:worker0,IP:10.0.0.3,DNS:kubernetes"}, "system:node:worker0"),
        ({"sans": "DNS:worker0,IP:10.0.0.4"}, "system:node:worker0"),
        ({"sans": "DNS:worker0"}, "system:node:worker0"),
        ({"sans": ""}, "system:node:worker0"),
        ({"subject": "/O=system:masters/CN=system:node:worker0"}, "system:node:worker0"),
        ({"subject": "/O=system:nodes/CN=system:node:worker1"}, "system:node:worker0"),
        ({}, "system:node:worker1"),
        ({}, "alice"),
    ],
    ids=["another-name", "another-address", "no-address", "nothing", "administrators", "for-another", "stranger-node", "person"],
)
def test_anything_else_is_left_for_a_person(run: Any, play: Any, tmp_path: Path, made: dict[str, str], user: str) -> None:
    played = play(Played(request(tmp_path, **made), user))
    told = run(certificates, {"nodes": NODES, "timeout": 0})
    assert told["failed"] and "worker0: self-signed certificate" in told["msg"] and "kubectl get csr" in told["msg"]
    assert played.approved == []


def test_requests_for_other_signers_are_not_its_business(run: Any, play: Any, tmp_path: Path) -> None:
    played = play(Played(request(tmp_path), signer="kubernetes.io/kube-apiserver-client"))
    assert run(certificates, {"nodes": NODES, "timeout": 0})["failed"] and played.approved == []


def test_a_kubelet_that_nobody_reaches_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "/dev/null"]
    subprocess.run([*command, "-subj", "/CN=ca", "-out", str(authority)], capture_output=True, check=True)
    monkeypatch.setattr(certificates, "PORT", 1)
    assert "refused" in certificates.unverified([{"name": "here", "address": "127.0.0.1"}], str(authority))["here"]
