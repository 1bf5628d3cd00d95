"""rackwright.cluster.kubeconfigs: who needs one, what is drawn and where it is put, with real certificates and a stand-in for kubeadm."""

from __future__ import annotations

import base64
import os
import pwd
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import kubeconfigs

ENDPOINT = "10.1.0.16:6443"
AUTHORITY = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n"
DRAWN = "contexts:\n- context:\n    cluster: lab\n    user: alice\n  name: alice@lab\nusers:\n- name: alice\n"


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Homes of alice and bob, who have the id of the user that runs the test."""
    for name in ("alice", "bob"):
        (tmp_path / name).mkdir()

    def account(user: str) -> Any:
        if not (tmp_path / user).is_dir():
            raise KeyError(user)
        return SimpleNamespace(pw_dir=str(tmp_path / user), pw_uid=os.getuid(), pw_gid=os.getgid())

    monkeypatch.setattr(kubeconfigs, "pwd", SimpleNamespace(getpwnam=account, struct_passwd=pwd.struct_passwd))
    return tmp_path


def certificate(folder: Path, days: int) -> bytes:
    """One that ends in so many days."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=alice"]
    subprocess.run([*command, "-days", str(days), "-keyout", "/dev/null", "-out", folder / "c"], check=True, capture_output=True)
    return (folder / "c").read_bytes()


def put(folder: Path, days: int = 90, endpoint: str = ENDPOINT, authority: str = AUTHORITY) -> Path:
    """Alice's own."""
    of_authority, own = (base64.b64encode(each).decode() for each in (authority.encode(), certificate(folder, days)))
    path = folder / "alice" / ".kube" / "config"
    path.parent.mkdir()
    path.write_text(f"    certificate-authority-data: {of_authority}\n    server: https://{endpoint}\n    client-certificate-data: {own}\n")
    return path


def wanting(run: Any, **more: Any) -> list[str]:
    told = run(kubeconfigs, {"state": "queried", "users": ["alice"], "endpoint": ENDPOINT, "authority": AUTHORITY, **more})
    assert not told["failed"] and told["changed"] is bool(told["wanting"])
    found: list[str] = told["wanting"]
    return found


class TestLooked:
    def test_a_good_one_is_enough(self, run: Any, homes: Path) -> None:
        put(homes)
        assert wanting(run) == []
        assert wanting(run, authority="") == []

    def test_who_has_none(self, run: Any, homes: Path) -> None:
        put(homes)
        assert wanting(run, users=["alice", "bob"]) == ["bob"]

    def test_one_that_ends_soon(self, run: Any, homes: Path) -> None:
        put(homes, days=40)
        assert wanting(run) == ["alice"]
        assert wanting(run, renew_before=30) == []

    def test_one_of_another_endpoint(self, run: Any, homes: Path) -> None:
        put(homes, endpoint="10.1.0.16:64430")
        assert wanting(run) == ["alice"]

    def test_one_of_another_authority(self, run: Any, homes: Path) -> None:
        put(homes, authority=AUTHORITY.replace("ours", "theirs"))
        assert wanting(run) == ["alice"]

    @pytest.mark.parametrize("data", ["", "%%%", "bm8="], ids=["none", "no base64", "no certificate"])
    def test_one_without_a_certificate(self, run: Any, homes: Path, data: str) -> None:
        path = put(homes)
        kept = [line for line in path.read_text().splitlines() if "client-certificate" not in line]
        path.write_text("\n".join([*kept, f"    client-certificate-data: {data}", ""]))
        assert wanting(run) == ["alice"]

    def test_a_user_who_is_not_there_is_an_error(self, run: Any, homes: Path) -> None:
        told = run(kubeconfigs, {"state": "queried", "users": ["carol"], "endpoint": ENDPOINT})
        assert told["failed"] and "carol: user not found on this node" in told["msg"]


class TestDrawn:
    @pytest.fixture
    def kubeadm(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "answer").write_text(f"I1122 a line that is no YAML\napiVersion: v1\n{DRAWN}")
        (tmp_path / "kubeadm").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\ncat {tmp_path}/answer\n')
        (tmp_path / "kubeadm").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return tmp_path

    def test_lasts_as_long_as_asked_and_works_in_the_users_namespace(self, run: Any, kubeadm: Path) -> None:
        told = run(kubeconfigs, {"state": "generated", "users": ["alice", "bob"], "days": 2, "namespaces": {"alice": "research"}})
        assert told["kubeconfigs"]["alice"].startswith("apiVersion: v1\n")
        assert "    namespace: research\n    user: alice\n" in told["kubeconfigs"]["alice"]
        assert "    namespace: default\n" in told["kubeconfigs"]["bob"]
        assert (
            "kubeconfig user --client-name alice --config /etc/kubernetes/rackwright/kubeadm.yaml --validity-period 48h"
            in (kubeadm / "said").read_text()
        )
        assert not told["changed"]

    def test_check_mode_signs_nothing(self, run: Any, kubeadm: Path) -> None:
        assert run(kubeconfigs, {"state": "generated", "users": ["alice"]}, check=True)["kubeconfigs"] == {}
        assert not (kubeadm / "said").exists()

    def test_an_authority_that_is_away_is_an_error(self, run: Any, kubeadm: Path) -> None:
        (kubeadm / "kubeadm").write_text("#!/bin/sh\necho 'error: ca.key: no such file' >&2; exit 1\n")
        told = run(kubeconfigs, {"state": "generated", "users": ["alice"]})
        assert told["failed"] and "ca.key: no such file - check that the CA key" in told["msg"]


class TestGiven:
    def test_its_user_alone_reads_it(self, run: Any, homes: Path) -> None:
        told = run(kubeconfigs, {"state": "installed", "kubeconfigs": {"alice": "text"}})
        path = homes / "alice" / ".kube" / "config"
        assert told["changed"] and path.read_text() == "text"
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        assert "text" not in str(told), "a kubeconfig is a secret: it is not in what the module tells"

    def test_an_open_one_is_closed_and_a_link_is_not_followed(self, run: Any, homes: Path) -> None:
        path, elsewhere = homes / "alice" / ".kube" / "config", homes / "elsewhere"
        path.parent.mkdir()
        path.write_text("old")
        path.chmod(0o644)
        run(kubeconfigs, {"state": "installed", "kubeconfigs": {"alice": "new"}})
        assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600
        path.with_name("config.rackwright").symlink_to(elsewhere)
        with pytest.raises(OSError, match="symbolic links"):
            kubeconfigs.install("alice", "stolen")
        assert not elsewhere.exists()

    def test_nothing_was_drawn(self, run: Any, homes: Path) -> None:
        assert not run(kubeconfigs, {"state": "installed", "kubeconfigs": {}})["changed"]
