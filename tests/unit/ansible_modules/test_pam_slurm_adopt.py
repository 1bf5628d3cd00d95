"""rackwright.cluster.pam_slurm_adopt: sshd's PAM file with and without the rules of Slurm's module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import pam_slurm_adopt

SSHD = """# PAM configuration for the Secure Shell service
@include common-auth
account    required     pam_nologin.so
# account  required     pam_access.so
@include common-account
session    required     pam_loginuid.so
@include common-session
session    optional     pam_motd.so noupdate
@include common-password
"""
"""Rules of /etc/pam.d/sshd of Debian 13 (openssh-server 10.0), without most comments."""
SESSION = """session	[default=1]			pam_permit.so
session	requisite			pam_deny.so
session	required			pam_permit.so
session	required	pam_unix.so
session	optional	pam_systemd.so
session	optional	pam_mkhomedir.so
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pam_slurm_adopt, "MODULE_FILES", (str(tmp_path / "*"),))
    (tmp_path / "sshd").write_text(SSHD)
    (tmp_path / "common-session").write_text(SESSION)
    return tmp_path


@pytest.fixture
def apply(run: Any, node: Path) -> Any:
    def applied(state: str = "present", *, check: bool = False, **given: Any) -> Any:
        places = {"folder": str(node), "administrators_file": str(node / "administrators")}
        return run(pam_slurm_adopt, {"state": state, **places, **given}, check=check)

    return applied


def rules(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_slurm_module_is_the_last_account_module(apply: Any, node: Path) -> None:
    assert apply()["changed"]
    found = rules(node / "sshd")
    place = found.index("@include common-account")
    assert "pam_listfile.so" in found[place + 1] and "sufficient" in found[place + 1]
    assert found[place + 2].split()[:3] == ["account", "required", "pam_slurm_adopt.so"]
    assert found[place + 3].startswith("session")


def test_administrators_and_root_need_no_job(apply: Any, node: Path) -> None:
    apply(administrators=["ops", "admin"])
    assert (node / "administrators").read_text().split() == ["admin", "ops", "root"]
    apply(administrators=[])
    assert (node / "administrators").read_text() == "root\n"


def test_systemd_moves_sessions_of_administrators_only(apply: Any, node: Path) -> None:
    apply()
    assert "@include common-session" not in rules(node / "sshd")
    found = rules(node / "rackwright-sshd-session")
    place = next(number for number, line in enumerate(found) if "pam_systemd.so" in line)
    assert "[default=1 success=ignore] pam_listfile.so" in found[place - 1]
    assert [line for line in found if "pam_listfile" not in line] == SESSION.splitlines()
    assert (node / "common-session").read_text() == SESSION


def test_second_run_and_check_mode_change_nothing(apply: Any, node: Path) -> None:
    assert apply(check=True)["changed"] and (node / "sshd").read_text() == SSHD and not (node / "administrators").exists()
    apply()
    assert not apply()["changed"] and not apply(check=True)["changed"]


def test_changed_common_session_is_followed(apply: Any, node: Path) -> None:
    apply()
    (node / "common-session").write_text(SESSION + "session optional pam_sss.so\n")
    assert apply()["changed_paths"] == [str(node / "rackwright-sshd-session")]


def test_removal_restores_the_file_of_the_distribution(apply: Any, node: Path) -> None:
    apply()
    assert apply("absent", check=True)["changed"] and "pam_slurm_adopt" in (node / "sshd").read_text()
    apply("absent")
    assert (node / "sshd").read_text() == SSHD
    assert sorted(path.name for path in node.iterdir()) == ["common-session", "sshd"]
    assert not apply("absent")["changed"]


def test_removed_rule_is_restored(apply: Any, node: Path) -> None:
    apply()
    (node / "sshd").write_text(SSHD)
    assert apply()["changed_paths"] == [str(node / "sshd")]


def test_node_without_sshd_needs_no_removal(apply: Any, node: Path) -> None:
    (node / "sshd").unlink()
    assert not apply("absent")["changed"]


def test_missing_module_locks_nobody_out(apply: Any, node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pam_slurm_adopt, "MODULE_FILES", (str(node / "absent.so"),))
    assert "libpam-slurm-adopt" in apply()["msg"]
    assert (node / "sshd").read_text() == SSHD


def test_file_of_another_form_is_refused(apply: Any, node: Path) -> None:
    text = "account include password-auth\nsession include password-auth\n"
    (node / "sshd").write_text(text)
    assert "common-session" in apply()["msg"]
    assert (node / "sshd").read_text() == text and not (node / "administrators").exists()
