"""Inspection of many machines: each reports as much as it allows, and none is changed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from drivers.sshd import SshServer, served
from support.hang import HANG_SECONDS

from rackwright.drivers import ssh_login
from rackwright.drivers.host_facts import Declared
from rackwright.drivers.preflight import PreflightRequest, PreflightResult, run_preflight
from rackwright.drivers.ssh_login import HostUnreachableError, SshRoute, fingerprint, login

_HOST_KEY = paramiko.ECDSAKey.generate()
_MINE = paramiko.ECDSAKey.generate()
_DECLARED = Declared(os="debian-13", cpus=8, memory_mib=16_384, gpus=0, container=False)
_FACTS = (
    "release.ID=debian\nrelease.VERSION_ID=13\ncpus=8\nmemory_kib=16300000\nfree_kib=90000000\n"
    "machine_id=abc\ncontainer=none\ninit=systemd\npython=/usr/bin/python3\n"
)


def answer(command: str) -> tuple[int, str, str]:
    """Return the facts of a machine with eight CPUs, as root reads them."""
    if "id -u" in command:
        return 0, "0\n", ""
    return 0, f"{_FACTS}gpus=0\n", ""


@pytest.fixture
def door() -> SshServer:
    """Return a machine that accepts my key and runs commands."""
    return SshServer(_MINE, answer)


@pytest.fixture
def route(door: SshServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshRoute]:
    """Yield the route to it, its key given; no agent is used."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_login, "_CONNECT", HANG_SECONDS)
    with served(door, _HOST_KEY) as port:
        yield SshRoute("worker0", "127.0.0.1", port, "root", fingerprint(_HOST_KEY))


@pytest.fixture
def keys(tmp_path: Path) -> list[Path]:
    """Return my key."""
    _MINE.write_private_key_file(str(tmp_path / "id"))
    return [tmp_path / "id"]


def preflight_one(route: SshRoute, keys: list[Path], *, via: SshRoute | None = None, declared: Declared = _DECLARED) -> PreflightResult:
    """Return the result of one machine."""
    (seen,) = run_preflight([PreflightRequest(route, declared)], keys, via=via, adopted=False)
    return seen


def test_machine_as_declared_fits(route: SshRoute, keys: list[Path]) -> None:
    seen = preflight_one(route, keys)
    assert seen.fits and seen.root and seen.key_confirmed
    assert seen.fingerprint == fingerprint(_HOST_KEY) and seen.key_type == "ecdsa-sha2-nistp256"
    assert seen.facts is not None and (seen.facts.cpus, seen.facts.os) == (8, "debian-13")


def test_machine_without_declared_key_is_inspected_and_misfits(route: SshRoute, keys: list[Path]) -> None:
    """A buyer of sixty-four machines wants their facts before copying their keys."""
    seen = preflight_one(replace(route, host_key=""), keys)
    assert (seen.fits, seen.key_confirmed, seen.problems) == (False, None, ("has no host_key in the stack file",))
    assert seen.facts is not None and seen.facts.cpus == 8


def test_mismatched_key_prevents_login(route: SshRoute, keys: list[Path], door: SshServer) -> None:
    seen = preflight_one(replace(route, host_key="SHA256:" + "A" * 43), keys)
    assert seen.reached and not seen.fits and seen.key_confirmed is False and door.logins == 0
    assert "not the one the stack file gives" in seen.problems[0] and fingerprint(_HOST_KEY) in seen.problems[0]


def test_all_mismatches_are_reported(route: SshRoute, keys: list[Path]) -> None:
    seen = preflight_one(route, keys, declared=replace(_DECLARED, cpus=16, gpus=2))
    assert seen.problems == ("has 8 CPUs, declared are 16", "has 0 GPUs of NVIDIA or AMD, declared are 2")


def test_missing_sudo_is_reported(route: SshRoute, keys: list[Path], door: SshServer) -> None:
    door.answer = lambda command: (1, "", "sudo: a password is required")
    seen = preflight_one(replace(route, user="admin"), keys)
    assert seen.logged_in and not seen.root and seen.facts is None
    assert seen.problems == ("admin has no passwordless sudo (sudo: a password is required)",)


def test_refused_login_still_reports_key(route: SshRoute, tmp_path: Path) -> None:
    seen = preflight_one(replace(route, host_key=""), [tmp_path / "missing"])
    assert seen.reached and not seen.logged_in and seen.fingerprint == fingerprint(_HOST_KEY)
    assert len(seen.problems) == 2 and "accepts none of the 0 keys offered" in seen.problems[1]


def test_unreachable_machine_is_reported(route: SshRoute, keys: list[Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen = preflight_one(replace(route, port=port), keys)
    assert not seen.reached and seen.problems[0].startswith("no SSH server responds")


def test_jump_host_is_logged_in_once(route: SshRoute, keys: list[Path], door: SshServer) -> None:
    other = SshServer(_MINE, answer)
    with served(other, _HOST_KEY) as port:
        behind = [PreflightRequest(replace(route, name=f"worker{index}", port=port), _DECLARED) for index in range(4)]
        seen = run_preflight(behind, keys, via=replace(route, name="login0"), adopted=False)
    assert all(one.fits for one in seen), seen
    assert [one.name for one in seen] == [asked.route.name for asked in behind]
    assert (door.logins, other.logins) == (1, 4)


def test_closed_jump_host_reports_its_reason(route: SshRoute, keys: list[Path]) -> None:
    via = replace(route, name="login0", host_key="SHA256:" + "A" * 43)
    login, worker = run_preflight([PreflightRequest(via, _DECLARED), PreflightRequest(route, _DECLARED)], keys, via=via, adopted=False)
    assert login.reached and not login.fits
    assert not worker.reached and "is reached through login0, which is not accessible: login0" in worker.problems[0]


def test_slow_machine_is_inspected_at_another_attempt(route: SshRoute, keys: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a budget its time-out is the result."""
    connect, failures = socket.create_connection, [TimeoutError("timed out")] * 2

    def failing_at_first(*arguments: Any, **named: Any) -> socket.socket:
        if failures:
            raise failures.pop()
        return connect(*arguments, **named)

    monkeypatch.setattr(ssh_login.socket, "create_connection", failing_at_first)
    monkeypatch.setattr(ssh_login, "_PAUSE", 0.0)
    assert "timed out" in preflight_one(route, keys).problems[0]
    (found,) = run_preflight(
        [PreflightRequest(route, _DECLARED)], keys, via=None, adopted=False, budget=ssh_login.ConnectBudget(HANG_SECONDS)
    )
    assert found.fits and not failures


def test_silent_command_is_awaited_longer_on_slow_machine(
    route: SshRoute, keys: list[Path], door: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleaning a machine prints nothing while its services stop. A machine that is given up keeps the configuration and the stack's key."""
    stopped = threading.Event()
    door.answer = lambda command: (0, "clean" if stopped.wait(HANG_SECONDS) else "", "")
    monkeypatch.setattr(ssh_login, "_slowness", lambda: 1)
    with login(route, keys) as session, pytest.raises(HostUnreachableError, match="stopped responding: no output for 0 s"):
        session.run("true", silence=0.05)
    monkeypatch.setattr(ssh_login, "_slowness", lambda: 1000)
    with login(route, keys) as session:
        threading.Timer(0.3, stopped.set).start()
        assert session.run("true", silence=0.05).output == "clean"
