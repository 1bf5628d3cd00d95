"""Files with secrets: what cannot be a secret of its kind is reported, and never quoted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.monitored import cluster

from rackwright.inventory.secret_files import secret_file_problems

KEY = "0123456789abcdef0123456789abcdef"
MAIL = {"to": ["ops@example.org"], "sender": "lab@example.org", "smarthost": "localhost:587", "username": "lab"}


def problem(kind: str, file: Path) -> str:
    """Return what is wrong with the file of a receiver; empty if nothing is."""
    receivers: dict[str, dict[str, Any]] = {
        "webhook": {"url_file": str(file)},
        "slack": {"url_file": str(file)},
        "pagerduty": {"key_file": str(file)},
        "email": {"password_file": str(file), **MAIL},
    }
    if kind == "deadman":
        found = secret_file_problems(cluster(monitoring={"kind": "builtin", "deadman": {"url_file": str(file)}}))
        return found.get("monitoring.deadman.url_file", "")
    found = secret_file_problems(cluster(monitoring={"kind": "builtin", "receivers": {"ops": {"kind": kind, **receivers[kind]}}}))
    assert all(path.startswith("monitoring.receivers.ops.") for path in found)
    return next(iter(found.values()), "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("webhook", "https://alerts.example.org/hook?token=x\n"),
        ("webhook", "http://10.0.0.1:8080/\r\n"),
        ("webhook", "https://user:secret@alerts.example.org/"),
        ("deadman", "https://ping.example.org/5f1e"),
        ("slack", "https://hooks.example.org/services/T0/B0/x\n"),
        ("pagerduty", f"{KEY}\n"),
        ("email", "correct horse battery\n"),
    ],
)
def test_secret_of_its_kind_is_accepted(tmp_path: Path, kind: str, text: str) -> None:
    (tmp_path / "secret").write_text(text)
    assert problem(kind, tmp_path / "secret") == ""


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("webhook", "alerts.example.org/canary", "does not contain an http or https URL"),
        ("webhook", "https:///canary", "does not contain an http or https URL"),
        ("webhook", "", "has 0 lines (expected one line, an http or https URL)"),
        ("deadman", "# the service\nhttps://ping.example.org/canary\n", "has 2 lines (expected one line, an http or https URL)"),
        ("slack", "http://hooks.example.org/services/canary", "does not contain an https URL with a path"),
        ("slack", "https://hooks.example.org", "does not contain an https URL with a path"),
        ("pagerduty", "canary", "does not contain an integration key of 32 letters and digits"),
        ("email", "\n \n", "has 0 lines (expected one line, a password)"),
        ("email", "canary" * 1000, "has too much text (expected one line, a password)"),
    ],
)
def test_text_that_is_no_such_secret_is_told_without_it(tmp_path: Path, kind: str, text: str, said: str) -> None:
    (tmp_path / "secret").write_text(text)
    assert problem(kind, tmp_path / "secret") == f"{tmp_path / 'secret'} {said}"
    assert "canary" not in problem(kind, tmp_path / "secret")


def test_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert problem("webhook", tmp_path / "absent").endswith("absent cannot be read: No such file or directory")
    assert problem("webhook", tmp_path).endswith("cannot be read: Is a directory")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert problem("webhook", tmp_path / "binary").endswith("is not text (expected one line, an http or https URL)")


def test_cluster_without_secrets_has_no_problem() -> None:
    assert secret_file_problems(None) == {}
    assert secret_file_problems(cluster(monitoring=None)) == {}
    relay = {"kind": "email", **{key: value for key, value in MAIL.items() if key != "username"}}
    assert secret_file_problems(cluster(monitoring={"kind": "builtin", "receivers": {"ops": relay}})) == {}


def test_password_of_a_bmc_is_of_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "bmc-password"
    file.write_text("canary\n")
    machines = {"login0": {"power": {"address": "10.9.0.1"}}, "worker0": {"power": {"password_file": str(tmp_path / "missing")}}}
    hosts = {"kind": "hosts", "os": "debian-13", "power": {"password_file": str(file)}, "machines": machines}
    declared = cluster(target=hosts)
    file.chmod(0o644)
    found = secret_file_problems(declared)
    assert found["target.power.password_file"] == f"{file} can be read by other users (expected mode 0600, found 0644)"
    assert "cannot be read" in found["target.machines.worker0.power.password_file"]
    file.chmod(0o600)
    assert list(secret_file_problems(declared)) == ["target.machines.worker0.power.password_file"]
    file.write_text("two\nlines\n")
    assert "has 2 lines" in secret_file_problems(declared)["target.power.password_file"]
