"""A look at many machines: each shows what it is as far as it lets us in, and nothing is said to any of them but questions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from support.hang import HANG_SECONDS

from rackwright.drivers import ssh_client
from rackwright.drivers.host_facts import Declared
from rackwright.drivers.preflight import PreflightRequest, PreflightResult, run_preflight
from rackwright.drivers.ssh_client import SshRoute, fingerprint

from .sshd import Door, served

_HOST_KEY = paramiko.ECDSAKey.generate()
_MINE = paramiko.ECDSAKey.generate()
_DECLARED = Declared(os="debian-13", cpus=8, memory_mib=16_384, gpus=0, container=False)
_FACTS = (
    "os=debian-13\ncpus=8\nmemory_kib=16300000\nfree_kib=90000000\nmachine_id=abc\ncontainer=none\ninit=systemd\npython=/usr/bin/python3\n"
)


def answer(command: str) -> tuple[int, str, str]:
    """A machine of eight CPUs, asked by root."""
    if "id -u" in command:
        return 0, "0\n", ""
    return 0, f"{_FACTS}gpus=0\n", ""


@pytest.fixture
def door() -> Door:
    """Lets my key in, and answers."""
    return Door(_MINE, answer)


@pytest.fixture
def way(door: Door, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshRoute]:
    """The way to it, its key given; no agent is asked."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_client, "_CONNECT", HANG_SECONDS)
    with served(door, _HOST_KEY) as port:
        yield SshRoute("worker0", "127.0.0.1", port, "root", fingerprint(_HOST_KEY))


@pytest.fixture
def keys(tmp_path: Path) -> list[Path]:
    """My key."""
    _MINE.write_private_key_file(str(tmp_path / "id"))
    return [tmp_path / "id"]


def look(way: SshRoute, keys: list[Path], *, via: SshRoute | None = None, declared: Declared = _DECLARED) -> PreflightResult:
    """What one machine shows."""
    (seen,) = run_preflight([PreflightRequest(way, declared)], keys, via=via, adopted=False)
    return seen


def test_a_machine_as_declared_fits(way: SshRoute, keys: list[Path]) -> None:
    seen = look(way, keys)
    assert seen.fits and seen.root and seen.key_confirmed
    assert seen.fingerprint == fingerprint(_HOST_KEY) and seen.key_type == "ecdsa-sha2-nistp256"
    assert seen.facts is not None and (seen.facts.cpus, seen.facts.os) == (8, "debian-13")


def test_a_machine_without_a_given_key_is_asked_and_does_not_fit(way: SshRoute, keys: list[Path]) -> None:
    """Whoever buys sixty-four machines wants to know what they are before copying their keys."""
    seen = look(replace(way, host_key=""), keys)
    assert (seen.fits, seen.key_confirmed, seen.wrong) == (False, None, ("no host_key is given for it",))
    assert seen.facts is not None and seen.facts.cpus == 8


def test_at_a_machine_with_another_key_nobody_logs_in(way: SshRoute, keys: list[Path], door: Door) -> None:
    seen = look(replace(way, host_key="SHA256:" + "A" * 43), keys)
    assert seen.reached and not seen.fits and seen.key_confirmed is False and door.logins == 0
    assert "not the one the stack file gives" in seen.wrong[0] and fingerprint(_HOST_KEY) in seen.wrong[0]


def test_what_does_not_fit_is_all_said(way: SshRoute, keys: list[Path]) -> None:
    seen = look(way, keys, declared=replace(_DECLARED, cpus=16, gpus=2))
    assert seen.wrong == ("has 8 CPUs, declared are 16", "has 0 NVIDIA GPUs, declared are 2")


def test_whoever_may_not_be_root_is_told(way: SshRoute, keys: list[Path], door: Door) -> None:
    door.answer = lambda command: (1, "", "sudo: a password is required")
    seen = look(replace(way, user="admin"), keys)
    assert seen.logged_in and not seen.root and seen.facts is None
    assert seen.wrong == ("admin may not become root without a password (sudo: a password is required)",)


def test_whoever_is_not_let_in_still_sees_the_key(way: SshRoute, tmp_path: Path) -> None:
    seen = look(replace(way, host_key=""), [tmp_path / "missing"])
    assert seen.reached and not seen.logged_in and seen.fingerprint == fingerprint(_HOST_KEY)
    assert len(seen.wrong) == 2 and "accepts none of the 0 keys offered" in seen.wrong[1]


def test_nobody_there_is_not_reached(way: SshRoute, keys: list[Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen = look(replace(way, port=port), keys)
    assert not seen.reached and seen.wrong[0].startswith("no SSH server answers")


def test_all_behind_a_door_come_through_one_login_there(way: SshRoute, keys: list[Path], door: Door) -> None:
    other = Door(_MINE, answer)
    with served(other, _HOST_KEY) as port:
        behind = [PreflightRequest(replace(way, name=f"worker{index}", port=port), _DECLARED) for index in range(4)]
        seen = run_preflight(behind, keys, via=replace(way, name="login0"), adopted=False)
    assert all(one.fits for one in seen), seen
    assert [one.name for one in seen] == [asked.way.name for asked in behind]
    assert (door.logins, other.logins) == (1, 4)


def test_behind_a_shut_door_nobody_is_reached_but_the_door_tells_why(way: SshRoute, keys: list[Path]) -> None:
    via = replace(way, name="login0", host_key="SHA256:" + "A" * 43)
    login, worker = run_preflight([PreflightRequest(via, _DECLARED), PreflightRequest(way, _DECLARED)], keys, via=via, adopted=False)
    assert login.reached and not login.fits
    assert not worker.reached and "is reached through login0, and there is no way in: login0" in worker.wrong[0]
