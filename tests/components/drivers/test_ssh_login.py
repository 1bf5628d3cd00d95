"""Every failed login has its reason and a hint. The server is real SSH, in this process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from drivers.sshd import SshServer, served
from support.hang import HANG_SECONDS

from rackwright.drivers import ssh_login
from rackwright.drivers.ssh_login import (
    ConnectBudget,
    ConnectTimeoutError,
    HostUnreachableError,
    LoginRefusedError,
    SshRoute,
    attempt_within,
    fingerprint,
    login,
)

_HOST_KEY = paramiko.RSAKey.generate(2048)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a private key that the server accepts."""
    file = tmp_path_factory.mktemp("keys") / "id_rsa"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(file))
    return file


@pytest.fixture
def route(key: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshRoute]:
    """Yield the route to a server that presents _HOST_KEY and accepts the key; no agent is used."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_login, "_CONNECT", HANG_SECONDS)
    with served(SshServer(paramiko.RSAKey.from_private_key_file(str(key))), _HOST_KEY) as port:
        yield SshRoute("worker0", "127.0.0.1", port, "admin", fingerprint(_HOST_KEY))


def test_login_reports_presented_key(route: SshRoute, key: Path) -> None:
    with login(route, [key]) as session:
        assert session.public_key == f"ssh-rsa {_HOST_KEY.get_base64()}"


def test_login_over_ipv6_compares_the_host_key(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_login, "_CONNECT", HANG_SECONDS)
    with served(SshServer(paramiko.RSAKey.from_private_key_file(str(key))), _HOST_KEY, "::1") as port:
        route = SshRoute("worker0", "::1", port, "admin", fingerprint(_HOST_KEY))
        with login(route, [key]) as session:
            assert session.public_key == f"ssh-rsa {_HOST_KEY.get_base64()}"
        with (
            pytest.raises(LoginRefusedError, match=rf"^worker0 \(admin@\[::1\]:{port}\): shows host key"),
            login(replace(route, host_key="SHA256:" + "A" * 43), [key]),
        ):
            pass


def test_host_key_may_be_full_key(route: SshRoute, key: Path) -> None:
    with login(replace(route, host_key=f"ssh-rsa {_HOST_KEY.get_base64()}"), [key]):
        pass


@pytest.mark.parametrize("pinned", ["SHA256:" + "A" * 43, "ssh-rsa AAAA"])
def test_mismatched_host_key_is_refused_and_shown(route: SshRoute, key: Path, pinned: str) -> None:
    with pytest.raises(LoginRefusedError, match="not the one the stack file gives") as told, login(replace(route, host_key=pinned), [key]):
        pass
    assert fingerprint(_HOST_KEY) in told.value.cause


def test_refused_keys_are_counted(route: SshRoute, tmp_path: Path) -> None:
    other = tmp_path / "other"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(other))
    with pytest.raises(LoginRefusedError, match="accepts none of the 1 keys offered") as told, login(route, [other]):
        pass
    assert "there is no file" not in told.value.cause and "authorized_keys" in told.value.hint


def test_missing_key_file_is_named(route: SshRoute, tmp_path: Path) -> None:
    with (
        pytest.raises(LoginRefusedError, match=f"none of the 0 keys offered; there is no file {tmp_path}/missing"),
        login(route, [tmp_path / "missing"]),
    ):
        pass


def test_key_with_passphrase_needs_agent(route: SshRoute, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(locked), password="secret")
    with pytest.raises(LoginRefusedError, match="protected by a passphrase"), login(route, [locked]):
        pass


def test_closed_port_is_unreachable(route: SshRoute, key: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(HostUnreachableError, match="no SSH server responds"), login(replace(route, port=port), [key]):
        pass


def test_unreachable_jump_host_is_named(route: SshRoute, key: Path) -> None:
    """Sixty-three machines seem to be down when one is."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        door = replace(route, name="login0", port=free.getsockname()[1])
    with (
        pytest.raises(
            HostUnreachableError,
            match=r"^worker0 \(.*\): is reached through login0, which is not accessible: login0 .*no SSH server responds",
        ),
        login(route, [key], through=door),
    ):
        pass


def test_refusing_jump_host_is_named(route: SshRoute, key: Path) -> None:
    door = replace(route, name="login0", host_key="SHA256:" + "A" * 43)
    told = r"is reached through login0, which is not accessible: login0 .*not the one the stack file gives"
    with pytest.raises(LoginRefusedError, match=told), login(route, [key], through=door):
        pass


def test_failed_tunnel_names_jump_host(route: SshRoute, key: Path) -> None:
    """The server here opens no tunnel."""
    with (
        pytest.raises(HostUnreachableError, match=r"worker0 .*no SSH server responds behind login0"),
        login(route, [key], through=replace(route, name="login0")),
    ):
        pass


def test_parallel_logins_at_one_host_are_limited(route: SshRoute, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login node drops some of many connections at once."""
    under_way, most = [], []
    connect = ssh_login._connect

    def counted(*arguments: Any) -> Any:
        under_way.append(1)
        most.append(len(under_way))
        try:
            return connect(*arguments)
        finally:
            under_way.pop()

    def enter(_: int) -> None:
        with login(route, [key]):
            pass

    monkeypatch.setattr(ssh_login, "_connect", counted)
    with ThreadPoolExecutor(20) as crowd:
        list(crowd.map(enter, range(20)))
    assert len(most) == 20 and max(most) <= 8


def test_aborted_command_is_unreachable(route: SshRoute, key: Path) -> None:
    with login(route, [key]) as session, pytest.raises(HostUnreachableError, match="stopped responding"):
        session.run("true")


def test_closed_connection_prints_one_message() -> None:
    """paramiko logs a traceback of its own, which Python prints without a logging setup; pytest has one, hence the separate process."""
    with socket.create_server(("127.0.0.1", 0)) as door, ThreadPoolExecutor(1) as pool:
        door.settimeout(HANG_SECONDS)
        pool.submit(lambda: door.accept()[0].close())
        command = [sys.executable, "-c", _ASK, str(door.getsockname()[1])]
        told = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    assert "no SSH server responds" in told.stdout
    assert told.stderr == ""


_ASK = """
import sys
from rackwright.drivers.ssh_login import HostUnreachableError, SshRoute, login
try:
    with login(SshRoute("worker0", "127.0.0.1", int(sys.argv[1]), "admin", "SHA256:" + "A" * 43), []):
        pass
except HostUnreachableError as error:
    print(error)
"""


class Clock:
    """Time that passes only while one sleeps, and during an attempt as long as its limit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.limits, self.said = 0.0, list[float](), list[str]()
        monkeypatch.setattr(ssh_login.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(ssh_login.time, "sleep", self.sleep)
        monkeypatch.setattr(ssh_login, "_slowness", lambda: 1)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def attempt(self, succeeds_with: float) -> Any:
        def connect(limit: float) -> str:
            self.limits.append(limit)
            if limit >= succeeds_with:
                return "session"
            self.now += limit
            raise ConnectTimeoutError("worker0: Timeout opening channel.", hint="look")

        return connect


def test_attempt_with_time_out_is_repeated_with_longer_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert attempt_within(ConnectBudget(60, clock.said.append), clock.attempt(20)) == "session"
    assert clock.limits == [5, 10, 20]
    assert clock.said == [
        "worker0: Timeout opening channel.; attempt 2, for at most 54 s",
        "worker0: Timeout opening channel.; attempt 3, for at most 43 s",
    ]


def test_attempts_end_with_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(ConnectTimeoutError) as told:
        attempt_within(ConnectBudget(60), clock.attempt(1000))
    assert (told.value.cause, told.value.hint) == ("worker0: Timeout opening channel.; 4 attempts in 60 s", "look")
    assert clock.limits == [5, 10, 20, 22] and clock.now == 60


def test_without_budget_there_is_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(ConnectTimeoutError) as told:
        attempt_within(ConnectBudget(), clock.attempt(1000))
    assert (told.value.cause, clock.limits) == ("worker0: Timeout opening channel.", [5])


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        pytest.param(paramiko.SSHException("Timeout opening channel."), True, id="channel-late"),
        pytest.param(paramiko.SSHException("Error reading SSH protocol banner"), True, id="banner-late"),
        pytest.param(TimeoutError("timed out"), True, id="connect-late"),
        pytest.param(ConnectionResetError(104, "Connection reset by peer"), True, id="dropped-by-busy-sshd"),
        pytest.param(EOFError(), True, id="closed"),
        pytest.param(ConnectionRefusedError(111, "Connection refused"), False, id="refused"),
        pytest.param(socket.gaierror(-2, "Name or service not known"), False, id="name-unknown"),
        pytest.param(paramiko.ChannelException(2, "Connect failed"), False, id="refused-behind-jump-host"),
    ],
)
def test_only_time_outs_are_repeated(route: SshRoute, key: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, repeated: bool) -> None:
    """The first attempt fails, and later ones reach the server."""
    connect, failures = socket.create_connection, [error]

    def failing_once(*arguments: Any, **named: Any) -> socket.socket:
        if failures:
            raise failures.pop()
        return connect(*arguments, **named)

    monkeypatch.setattr(ssh_login.socket, "create_connection", failing_once)
    monkeypatch.setattr(ssh_login, "_PAUSE", 0.0)
    said: list[str] = []
    if repeated:
        with login(route, [key], budget=ConnectBudget(HANG_SECONDS, said.append)) as session:
            assert session.public_key and len(said) == 1 and "no SSH server responds" in said[0]
    else:
        with pytest.raises(HostUnreachableError), login(route, [key], budget=ConnectBudget(HANG_SECONDS, said.append)):
            pass
        assert not said


def test_error_of_the_caller_is_not_an_attempt(route: SshRoute, key: Path) -> None:
    with (
        pytest.raises(ConnectTimeoutError, match="of the caller"),
        login(route, [key], budget=ConnectBudget(HANG_SECONDS, lambda _: pytest.fail("repeated"))),
    ):
        raise ConnectTimeoutError("of the caller")
