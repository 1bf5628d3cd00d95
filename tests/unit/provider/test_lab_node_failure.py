"""Why a lab node does not answer, as its container and its journal tell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rackwright.drivers.podman import Container
from rackwright.drivers.process import CompletedProcess
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.lab import node_failure

JOURNAL = """Server listening on 0.0.0.0 port 22.
Accepted publickey for root from 10.89.0.2 port 40814 ssh2: ED25519 SHA256:abc
pam_loginuid(sshd:session): set_loginuid failed
pam_unix(sshd:session): session opened for user root(uid=0) by root(uid=0)
fatal: pam_setcred(): Failure setting user credentials
Received disconnect from 10.89.0.2 port 40814:11: disconnected by user
pam_unix(sshd:session): session closed for user root
"""


class Engine:
    """A container engine with one container."""

    def __init__(self) -> None:
        self.container: Container | None = Container("1" * 64, "lab-worker0", True, False, "", "image", {})
        self.said = {"logs": "", "exec": JOURNAL, "container": "255\n"}
        self.refuses = False

    async def inspect(self, name: str) -> Container | None:
        """Return the container."""
        if self.refuses:
            raise RackwrightError("podman container inspect: no")
        assert name == "lab-worker0"
        return self.container

    async def podman(self, verb: str, *_: str, **__: object) -> CompletedProcess:
        """Answer a command."""
        return CompletedProcess(("podman", verb), 0, self.said[verb], "")

    def exits(self) -> None:
        """End the first process."""
        self.container = Container("1" * 64, "lab-worker0", False, False, "", "image", {})


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Replace podman."""
    engine = Engine()
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(node_failure, "inspect", engine.inspect)
    monkeypatch.setattr(node_failure, "podman", engine.podman)
    monkeypatch.setattr("rackwright.drivers.podman.podman", engine.podman)
    return engine


def failure(*, last: bool = False) -> str | None:
    """Query the cause."""
    return asyncio.run(node_failure.failure_of("lab", "worker0", last=last))


def test_exited_container_is_reported_with_its_last_lines(engine: Engine) -> None:
    engine.exits()
    engine.said["logs"] = "".join(f"line {number}\n" for number in range(9)) + "Failed to mount cgroup at /sys/fs/cgroup\n"
    told = failure()
    assert told is not None and told.startswith("container lab-worker0 exited with status 255; its last lines: line 5 | ")
    assert told.endswith("| Failed to mount cgroup at /sys/fs/cgroup")


def test_silent_exit_is_said_to_be_silent(engine: Engine) -> None:
    engine.exits()
    assert failure() == "container lab-worker0 exited with status 255; it printed nothing"


def test_missing_container_is_reported(engine: Engine) -> None:
    engine.container = None
    assert failure() == "there is no container lab-worker0"


def test_starting_container_is_waited_for(engine: Engine) -> None:
    assert failure() is None


def test_pam_refusal_is_quoted_at_the_end(engine: Engine) -> None:
    assert failure(last=True) == "sshd refused the session: fatal: pam_setcred(): Failure setting user credentials"
    engine.said["exec"] = JOURNAL.replace("fatal: pam_setcred(): Failure setting user credentials\n", "")
    assert failure(last=True) == "sshd refused the session: pam_loginuid(sshd:session): set_loginuid failed"


def test_healthy_journal_names_no_refusal(engine: Engine) -> None:
    engine.said["exec"] = "pam_unix(sshd:session): session opened for user root(uid=0) by root(uid=0)\n"
    assert failure(last=True) is None


def test_sleeping_node_is_no_failure(engine: Engine) -> None:
    engine.exits()
    mark = paths.suspended_file("lab", "worker0")
    mark.parent.mkdir(parents=True)
    mark.touch()
    assert failure() is None


def test_failing_podman_leaves_the_first_reason(engine: Engine) -> None:
    engine.refuses = True
    assert failure(last=True) is None
