"""`rackwright etcd`: what it refuses, what it plays, and what it leaves behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.cli import main
from rackwright.drivers import ansible, ssh_connections
from rackwright.inventory import paths


class Stack:
    """A stack that is up, and how its playbooks end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.scheduler: dict[str, Any] = {"kind": "kubernetes", "controllers": ["login0"]}
        self.lost: dict[str, str] = {}
        self.applied = ansible.PlaybookResult()
        self.played: list[tuple[str, str]] = []
        self.limits: list[list[str]] = []

    def etcd(self, *words: str) -> tuple[object, str, str]:
        variables = {"handover": {}, "cluster": {"scheduler": self.scheduler}}
        paths.inventory("lab").write_text(yaml.safe_dump({"all": {"vars": variables, "children": {}, "hosts": {}}}))
        self.monkeypatch.setattr(sys, "argv", ["rackwright", "etcd", *words])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *self.capsys.readouterr())


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stack:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    paths.inventory("lab").parent.mkdir(parents=True)
    found = Stack(monkeypatch, capsys)

    async def reach(*_: object, **__: object) -> dict[str, str]:
        return found.lost

    async def play(root: Path, playbook: str, *, values: dict[str, Any], limit: list[str], **_: object) -> ansible.PlaybookResult:
        found.played.append((playbook, values["backup_file"]))
        found.limits.append(list(limit))
        if playbook == "etcd-backup.yml":
            Path(values["backup_file"]).write_text("snapshot")
        return found.applied

    monkeypatch.setattr(ssh_connections, "connect_all", reach)
    monkeypatch.setattr(ansible, "play", play)
    return found


def test_a_backup_is_whole_and_for_its_owner_alone(stack: Stack, tmp_path: Path) -> None:
    code, out, _ = stack.etcd("backup", "lab", str(tmp_path / "file"))
    assert code == 0 and "the key is in the stack's state" in out
    assert (tmp_path / "file").read_text() == "snapshot" and (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]


def test_a_backup_that_fails_leaves_nothing(stack: Stack, tmp_path: Path) -> None:
    stack.applied = ansible.PlaybookResult(failed=[ansible.TaskResult("login0", "etcd", "Save an etcd snapshot", "no answer")])
    code, _, err = stack.etcd("backup", "lab", str(tmp_path / "file"))
    assert code == 1 and "login0: etcd: Save an etcd snapshot: no answer" in err
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_no_backup_is_overwritten(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    code, _, err = stack.etcd("backup", "lab", str(tmp_path / "file"))
    assert code == 2 and "backups are never overwritten" in err and stack.played == [] and (tmp_path / "file").read_text() == "old"


def test_a_restore_replaces_only_by_force(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("snapshot")
    code, _, err = stack.etcd("restore", "lab", str(tmp_path / "file"))
    assert code == 2 and "pass `--force` to confirm; objects created since the snapshot are lost" in err and stack.played == []
    code, out, _ = stack.etcd("restore", "lab", str(tmp_path / "file"), "--force")
    assert code == 0 and "restored from" in out and stack.played == [("etcd-restore.yml", str(tmp_path / "file"))]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("backup", "lab", "{}/nowhere/file"), "`mkdir -p"),
        (("backup", "lab", "{}/file", "--force"), "No such option: --force"),
        (("restore", "lab", "{}/file", "--force"), "file does not exist"),
        (("backup", "lab-k8s-ha", "{}/file"), "run `rackwright up lab-k8s-ha`"),
    ],
    ids=["no folder", "a backup by force", "no file", "not up"],
)
def test_bad_input(stack: Stack, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    code, _, err = stack.etcd(*(word.replace("{}", str(tmp_path)) for word in words))
    assert code == 2 and told in err and stack.played == []


def test_slurm_has_no_etcd(stack: Stack, tmp_path: Path) -> None:
    stack.scheduler = {"kind": "slurm"}
    code, _, err = stack.etcd("backup", "lab", str(tmp_path / "file"))
    assert code == 2 and "has no etcd (expected scheduler kubernetes, found slurm)" in err and "accounting-backup.yml" in err


@pytest.fixture
def three(stack: Stack) -> Stack:
    """Three controllers, of which the first does not answer."""
    stack.scheduler["controllers"] = ["login0", "login1", "login2"]
    stack.lost = {"login0": "no route"}
    return stack


def test_a_backup_needs_one_controller(three: Stack, tmp_path: Path) -> None:
    assert three.etcd("backup", "lab", str(tmp_path / "new"))[0] == 0
    assert three.limits == [["login1", "login2"]]


def test_a_restore_needs_all_controllers(three: Stack, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("snapshot")
    code, _, err = three.etcd("restore", "lab", str(tmp_path / "file"), "--force")
    assert (
        code == 3
        and "aborted before any change: all controllers must be reachable, because an etcd member that is left out" in err
        and "login0: no route" in err
    )


def test_a_restore_is_put_back_on_all_controllers(three: Stack, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("snapshot")
    three.lost = {}
    assert three.etcd("restore", "lab", str(tmp_path / "file"), "--force")[0] == 0
    assert three.limits == [["login0", "login1", "login2"]]


def test_a_controller_that_does_not_answer(stack: Stack, tmp_path: Path) -> None:
    stack.lost = {"login0": "no route"}
    code, _, err = stack.etcd("backup", "lab", str(tmp_path / "file"))
    assert code == 3 and "login0: no route" in err and stack.played == [] and [path.name for path in tmp_path.iterdir()] == ["home"]
