"""`rackwright state backup`: what is kept, what is refused, and that nothing is written by halves."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from support.cli import Run

from rackwright.inventory import paths
from rackwright.operations.state import backup, files

from .homes import STATE, go_to, write


def members(file: Path) -> set[str]:
    """What an archive holds."""
    with tarfile.open(file) as archive:
        return set(archive.getnames())


def test_a_backup_holds_what_cannot_be_made_again(state: Run, home: Path, tmp_path: Path) -> None:
    """Not sockets, locks, drafts, raw results, or what a removed stack left."""
    for name in ("lab/report.json", "lab/own/note.txt"):
        write(home, name, "kept")
    unwanted = ["lab/results/1.json", "lab/refresh/results/1.json", "lab/.lock", "lab/.inventory.yml.12", "gone/results/1.json"]
    unwanted += [f"{STATE}/{name}" for name in ("stacks/rackwright/lab.json.7.tmp", "stacks/rackwright/gone.json.bak", "locks/x/1.json")]
    unwanted += [f"{STATE}/stacks/other/lab.json", ".engine/config/Pulumi.lab.yaml"]
    for name in unwanted:
        write(home, name, "not kept")
    (home / "lab" / "link").symlink_to(write(tmp_path, "elsewhere", "not kept"))
    ended = state("backup", tmp_path / "b.tar.gz")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[:2] == [f"{tmp_path}/b.tar.gz: backed up from {home}", "stack lab: state, keys and reports"]
    assert "it contains keys and secrets in clear text" in ended.out
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600
    state = {f"{STATE}/{name}" for name in ("meta.yaml", "stacks/rackwright/lab.json", "history/rackwright/lab/1.json")}
    folder = {f"lab/{name}" for name in ("id_ed25519", "ssh_config", "report.json", "own/note.txt")}
    assert members(tmp_path / "b.tar.gz") == {"backup.json", ".engine/passphrase", *state, *folder}


def test_the_same_for_programs(state: Run, home: Path, tmp_path: Path) -> None:
    """And a stack that lives on another backend is said to."""
    (home / f"{STATE}/stacks/rackwright/lab.json").unlink()
    ended = state("backup", tmp_path / "b", "--json")
    told = json.loads(ended.out)
    assert (told["action"], told["place"]) == ("backup", str(tmp_path / "b"))
    assert told["stacks"] == [{"stack": "lab", "state": False, "folder": True, "files": 3}]
    assert "its state is on another backend" in state("backup", tmp_path / "c").out


def test_a_stack_that_never_came_up(state: Run, home: Path, tmp_path: Path) -> None:
    """Has a state, and nothing that an inventory could be made of."""
    shutil.rmtree(home / "lab")
    assert "stack lab: state\n" in state("backup", tmp_path / "b").out


def test_a_passphrase_from_elsewhere_is_the_user_s_to_keep(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the backup is worth nothing."""
    assert "passphrase of your environment" not in state("backup", tmp_path / "b").out
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "")
    assert "it does not contain the passphrase of your environment (PULUMI_CONFIG_PASSPHRASE…)" in state("backup", tmp_path / "c").out


def test_nothing_is_overwritten(state: Run, home: Path, tmp_path: Path) -> None:
    """Not even a link that leads nowhere."""
    write(tmp_path, "b", "an older backup")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("b", "link"):
        ended = state("backup", tmp_path / name)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"{tmp_path / name}: file exists, and backups are never overwritten\n  choose another name")
    assert (tmp_path / "b").read_text() == "an older backup"


@pytest.mark.parametrize("links", [True, False])
def test_file_systems_without_links_will_do(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """A USB stick, say. On no file system is a file overwritten that appears meanwhile."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def late() -> list[PurePosixPath]:
        write(tmp_path, "c", "somebody was faster")
        return found

    found = files.files()
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refused)
    assert state("backup", tmp_path / "b").code == 0
    assert "lab/id_ed25519" in members(tmp_path / "b")
    monkeypatch.setattr(files, "files", late)
    assert state("backup", tmp_path / "c").code == 2
    assert (tmp_path / "c").read_text() == "somebody was faster"
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["b", "c"]


def test_a_full_disk_leaves_nothing_half(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under the name asked for nor beside it."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    ended = state("backup", tmp_path / "b")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"{tmp_path}/b: cannot write the backup: No space left on device\n  check the")
    assert sorted(tmp_path.iterdir()) == before


def test_wrong_places(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input, each with a way out."""
    ended = state("backup", tmp_path / "none" / "b")
    assert (ended.code, ended.err) == (2, f"{tmp_path}/none: folder does not exist\n  run `mkdir -p {tmp_path}/none`\n")
    assert state("restore", tmp_path / "b").err.startswith(f"{tmp_path}/b: file does not exist\n")
    refused = state("backup", tmp_path / "b", "--force")
    assert refused.code == 2 and "No such option: --force" in refused.err
    go_to(tmp_path / "empty", monkeypatch)
    assert state("backup", tmp_path / "b").err.startswith(f"{tmp_path}/empty: state directory has no stacks to back up\n")
    assert state("undo", tmp_path / "b").code == 2


@pytest.mark.parametrize("action", ["backup", "restore"])
def test_a_run_at_work_is_let_work(state: Run, home: Path, tmp_path: Path, action: str) -> None:
    """Who holds the lock is said."""
    assert state("backup", tmp_path / "a").code == 0
    with paths.lock_file("lab").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711")
        lock.truncate()
        lock.flush()
        ended = state("backup", tmp_path / "b") if action == "backup" else state("restore", tmp_path / "a", "--force")
    assert (ended.code, ended.out) == (1, "")
    hint = "wait for that run to finish, then run this command again"
    assert ended.err == f"{home}/lab/.lock: another run is changing stack lab (process 4711)\n  {hint}\n"
    assert not (tmp_path / "b").exists()
    assert state("backup", tmp_path / "b").code == 0


def test_the_engine_s_own_lock_counts(state: Run, home: Path, tmp_path: Path) -> None:
    """It works for a while before the provider locks the stack; a lock of the dead is none."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    name = f"{STATE}/locks/organization/rackwright/lab/1.json"
    write(home, name, json.dumps({"pid": ended.pid, "hostname": os.uname().nodename}))
    assert state("backup", tmp_path / "a").code == 0
    for number, lock in enumerate([{"pid": os.getpid(), "hostname": os.uname().nodename}, {"pid": ended.pid, "hostname": "x"}, []]):
        write(home, name, json.dumps(lock))
        refused = state("backup", tmp_path / f"b{number}")
        assert refused.code == 1, lock
        assert refused.err.startswith(f"{home}/{name}: another run is changing stack lab (process ")
        assert "`pulumi cancel -s lab`" in refused.err


def test_a_run_waits_while_the_backup_is_made(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read must fit together."""
    locked = []

    def look(*_: Any) -> None:
        with paths.lock_file("lab").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(paths.lock_file("lab").read_text())

    monkeypatch.setattr(backup, "_write", look)
    state("backup", tmp_path / "b")
    assert locked == [str(os.getpid())]
