"""The shim's view of the file backend: existence, salt, dead locks, interrupted creates."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from shim.file_backend import FileBackend

SALT = "v1:c2FsdA==:v1:bm9uY2U=:Y2lwaGVy"


@pytest.fixture
def backend(tmp_path: Path) -> FileBackend:
    """A backend with nothing in it."""
    return FileBackend(f"file://{tmp_path}", "rackwright", "/")


def write_state(root: Path, latest: object, indent: int | None = None) -> Path:
    """The state of stack `lab`, compact as the engine writes it unless indented."""
    path = root / ".pulumi/stacks/rackwright/lab.json"
    path.parent.mkdir(parents=True)
    state = {"version": 3, "checkpoint": {"stack": "organization/rackwright/lab", "latest": latest}}
    path.write_text(json.dumps(state, indent=indent, separators=None if indent else (",", ":")))
    return path


def write_lock(root: Path, pid: int, hostname: str | None = None) -> Path:
    """A lock as the engine writes it."""
    path = root / f".pulumi/locks/organization/rackwright/lab/{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"pid": pid, "username": "a", "hostname": hostname or os.uname().nodename, "timestamp": "2026-11-21T03:00:00Z"})
    )
    return path


def dead_process() -> int:
    """The id of a process that has just ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_existence(backend: FileBackend, tmp_path: Path) -> None:
    assert not backend.has("lab")
    path = write_state(tmp_path, {})
    assert backend.has("lab")
    path.rename(path.with_suffix(".json.gz"))
    assert backend.has("lab")


@pytest.mark.parametrize("indent", [None, 2])
def test_salt(backend: FileBackend, tmp_path: Path, indent: int | None) -> None:
    assert backend.salt("lab") is None
    write_state(tmp_path, {"manifest": {}, "secrets_providers": {"type": "passphrase", "state": {"salt": SALT}}, "resources": []}, indent)
    assert backend.salt("lab") == SALT


@pytest.mark.parametrize(
    "latest",
    [
        {"secrets_providers": {"type": "cloud", "state": {"url": "awskms://k"}}},
        {"secrets_providers": {"type": "later", "state": {"salt": "of another kind"}}},
        {"resources": [{"outputs": {"text": '"secrets_providers":{"type":"passphrase","state":{"salt":"no"}}'}}]},
        {},
        None,
    ],
)
def test_no_salt(backend: FileBackend, tmp_path: Path, latest: object) -> None:
    write_state(tmp_path, latest)
    assert backend.salt("lab") is None


def test_only_a_dead_processs_lock_on_this_host_is_removed(backend: FileBackend, tmp_path: Path) -> None:
    gone = dead_process()
    dead, living, foreign = write_lock(tmp_path, gone), write_lock(tmp_path, os.getpid()), write_lock(tmp_path, gone + 10**7, "elsewhere")
    assert backend.remove_dead_locks("lab") == [gone]
    assert not dead.exists()
    assert living.exists()
    assert foreign.exists()


def test_a_lock_older_than_the_process_that_has_its_id_now_is_dead(backend: FileBackend, tmp_path: Path) -> None:
    lock = write_lock(tmp_path, os.getpid())
    os.utime(lock, (1, 1))
    assert backend.remove_dead_locks("lab") == [os.getpid()]


def test_lock_of_uncollected_process_is_removed(backend: FileBackend, tmp_path: Path) -> None:
    """An engine that was killed with its shim is a zombie until process 1 collects it."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    write_lock(tmp_path, child.pid)
    assert backend.remove_dead_locks("lab") == [child.pid]
    child.wait()


def test_lock_of_living_engine_survives_clock_step(backend: FileBackend, tmp_path: Path) -> None:
    """The clock stepped an hour ahead: /proc then shows every process as started an hour later."""
    engine = tmp_path / "pulumi"
    engine.symlink_to("/bin/sleep")
    child = subprocess.Popen([engine, "60"])
    try:
        lock = write_lock(tmp_path, child.pid)
        hour_ago = lock.stat().st_mtime - 3600
        os.utime(lock, (hour_ago, hour_ago))
        assert backend.remove_dead_locks("lab") == []
    finally:
        child.kill()
        child.wait()
    assert backend.remove_dead_locks("lab") == [child.pid]


def test_an_unreadable_lock_stays(backend: FileBackend, tmp_path: Path) -> None:
    lock = write_lock(tmp_path, 1)
    lock.write_text("{")
    assert backend.remove_dead_locks("lab") == []
    assert lock.exists()


def test_only_interrupted_creates_of_our_own_resources_are_forgotten(backend: FileBackend, tmp_path: Path) -> None:
    ours = {
        "type": "creating",
        "resource": {"urn": "urn:pulumi:lab::rackwright::rackwright:lab:Node::worker0", "type": "rackwright:lab:Node"},
    }
    theirs = {"type": "creating", "resource": {"urn": "urn:…::aws:ec2/instance:Instance::w", "type": "aws:ec2/instance:Instance"}}
    path = write_state(tmp_path, {"manifest": {"a": 1}, "pending_operations": [ours, theirs], "resources": [1]})
    assert backend.forget_interrupted("lab", "rackwright:") == [ours["resource"]["urn"]]  # type: ignore[index]
    latest = json.loads(path.read_text())["checkpoint"]["latest"]
    assert latest == {"manifest": {"a": 1}, "pending_operations": [theirs], "resources": [1]}
    assert backend.forget_interrupted("lab", "rackwright:") == []


def test_a_locked_stack_is_not_touched(backend: FileBackend, tmp_path: Path) -> None:
    path = write_state(tmp_path, {"pending_operations": [{"type": "creating", "resource": {"type": "rackwright:lab:Node"}}]})
    before = path.read_text()
    write_lock(tmp_path, os.getpid())
    assert backend.forget_interrupted("lab", "rackwright:") == []
    assert path.read_text() == before
