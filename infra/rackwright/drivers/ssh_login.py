"""Login on a machine over plain SSH, before the machine belongs to a stack: host key, authentication and sudo.

paramiko is used instead of the ssh client, because the host key itself is a result and each kind of failure has its own reason.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import shlex
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import paramiko

from rackwright.errors import RackwrightError
from rackwright.time_limits import slowness

# paramiko logs the traceback of its exceptions as well; Python prints it where no handler is installed.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

T = TypeVar("T")
_CONNECT: Final = 5.0
"""Seconds for each step of a first attempt, on a machine of usual speed: to connect, to receive the server's banner, to open a channel."""
_PAUSE: Final = 1.0
"""Seconds between two attempts."""
_AUTHENTICATION: Final = 6
"""Ratio of the limit for authentication to that of other steps: paramiko's own is 30 s."""
_COMMAND: Final = 60.0
"""Seconds that a command may print nothing, on a machine of usual speed."""
_AT_ONCE: Final = 8
"""Number of parallel logins on one machine. sshd drops some from the eleventh on (MaxStartups 10:30:100, sshd_config(5)), and one
machine may be the jump host of a whole rack."""
_turns: Final[defaultdict[tuple[str, int], threading.BoundedSemaphore]] = defaultdict(lambda: threading.BoundedSemaphore(_AT_ONCE))


@dataclass(frozen=True)
class SshRoute:
    """The route to a machine, and the login user."""

    name: str
    address: str
    port: int
    user: str
    host_key: str
    """Expected key: a fingerprint (SHA256:…) or type and key."""

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.name} ({self.user}@{address}:{self.port})"


class HostUnreachableError(RackwrightError):
    """No SSH server responds at the address."""


class ConnectTimeoutError(HostUnreachableError):
    """A connection was not ready in time, or broke before the login. A slow machine may be ready at the next attempt."""


class LoginRefusedError(RackwrightError):
    """The machine responds, but rackwright cannot use it as it is."""


@dataclass(frozen=True)
class ConnectBudget:
    """Time for the attempts at one machine."""

    seconds: float = 0.0
    """Seconds in which a new attempt may begin; 0 for a single attempt. On a slow control machine they are longer."""
    say: Callable[[str], object] = lambda text: None
    """Called in this thread before each further attempt, with the reason for it."""


def attempt_within(budget: ConnectBudget, connect: Callable[[float], T]) -> T:
    """Return what `connect` returns; repeat it after a time-out, with twice the limit, as long as the budget lasts.

    `connect` gets the limit for each of its steps, in seconds. A refusal, another host key or a wrong login is an answer and not repeated.
    """
    began, limit, number = time.monotonic(), _first_limit(), 1
    while True:
        try:
            return connect(limit)
        except ConnectTimeoutError as error:
            took = time.monotonic() - began
            left = budget.seconds * _slowness() - took - _PAUSE
            if left <= 0:
                tried = f"; {number} attempts in {took:.0f} s" if number > 1 else ""
                raise ConnectTimeoutError(f"{error.cause}{tried}", hint=error.hint) from None
            number, limit = number + 1, min(2 * limit, max(_first_limit(), left))
            budget.say(f"{error.cause}; attempt {number}, for at most {left:.0f} s")
            time.sleep(_PAUSE)


@cache
def _slowness() -> int:
    return slowness()


def _first_limit() -> float:
    return _CONNECT * _slowness()


@dataclass(frozen=True)
class CommandResult:
    """Result of a command."""

    status: int
    output: str
    stderr: str


class Handshake:
    """A connection to a machine that has presented its host key, before a login."""

    def __init__(self, route: SshRoute, transport: paramiko.Transport, limit: float) -> None:
        self.route, self._transport, self._limit = route, transport, limit

    @property
    def key(self) -> paramiko.PKey:
        """Return the presented key."""
        return self._transport.get_remote_server_key()

    def check_key(self) -> None:
        """Raise LoginRefusedError if the key is not that of the route."""
        presented = fingerprint(self.key) if " " not in self.route.host_key else f"{self.key.get_name()} {self.key.get_base64()}"
        if presented.rstrip("=") != self.route.host_key.rstrip("="):
            raise LoginRefusedError(
                f"{self.route}: shows host key {fingerprint(self.key)} ({self.key.get_name()}), which is not the one the stack file gives",
                hint="on its console, compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; then correct host_key, "
                "or find out which machine responds there",
            )

    def enter(self, keys: list[Path]) -> Session:
        """Log in with one of these keys, or with a key of the agent."""
        _authenticate(self.route, self._transport, keys)
        return Session(self.route, self._transport, self._limit)


class Session:
    """A login on a machine."""

    def __init__(self, route: SshRoute, transport: paramiko.Transport, limit: float) -> None:
        self.route, self._transport, self._limit = route, transport, limit

    @property
    def public_key(self) -> str:
        """Return the presented key: type and base64."""
        key = self._transport.get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"

    def run(self, script: str, *, root: bool = False, silence: float = _COMMAND) -> CommandResult:
        """Run a shell script as the login user, or as root. It may print nothing for `silence` seconds, longer on a slow machine."""
        shell = f"sh -c {shlex.quote(script)}"
        silence *= _slowness()
        try:
            return self._run(f"sudo -n -- {shell}" if root and self.route.user != "root" else shell, silence)
        except TimeoutError:
            raise HostUnreachableError(f"{self.route}: stopped responding: no output for {silence:.0f} s", hint=_REACH) from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostUnreachableError(f"{self.route}: stopped responding: {error or type(error).__name__}", hint=_REACH) from None

    def _run(self, command: str, silence: float) -> CommandResult:
        channel = self._transport.open_session(timeout=self._limit)
        channel.settimeout(silence)
        channel.exec_command(command)
        channel.shutdown_write()
        with channel.makefile("rb") as out, channel.makefile_stderr("rb") as err:
            output, stderr = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        return CommandResult(channel.recv_exit_status(), output, stderr.strip())

    def tunnel(self, route: SshRoute, limit: float) -> paramiko.Channel:
        """Return a channel from the machine to another one, opened within `limit` seconds."""
        return self._transport.open_channel("direct-tcpip", (route.address, route.port), ("127.0.0.1", 0), timeout=limit)


@contextmanager
def login(route: SshRoute, keys: list[Path], *, through: SshRoute | None = None, budget: ConnectBudget | None = None) -> Iterator[Session]:
    """Log in, optionally through a jump host. Raise HostUnreachableError or LoginRefusedError with cause and hint.

    `budget`: time for further attempts after a time-out; None for a single attempt.
    """

    def connect(limit: float) -> tuple[Session, ExitStack]:
        with ExitStack() as stack:
            session = _log_in(route, keys, through, stack, limit)
            return session, stack.pop_all()

    session, stack = attempt_within(budget or ConnectBudget(), connect)
    with stack:
        yield session


def _log_in(route: SshRoute, keys: list[Path], through: SshRoute | None, stack: ExitStack, limit: float) -> Session:
    """Log in once; the exit stack closes all connections."""
    first = _first(route, through, keys, stack, limit) if through is not None else None
    with _turns[route.address, route.port]:
        met = stack.enter_context(handshake(route, first, limit))
        met.check_key()
        return met.enter(keys)


@contextmanager
def handshake(route: SshRoute, first: Session | None = None, limit: float | None = None) -> Iterator[Handshake]:
    """Connect, optionally through a jump host's session, without a login and without a check of the key.

    `limit`: seconds for each step; None for that of a first attempt.
    """
    limit = limit or _first_limit()
    with ExitStack() as stack:
        yield Handshake(route, _connect(route, first, stack, limit), limit)


def _first(route: SshRoute, through: SshRoute, keys: list[Path], stack: ExitStack, limit: float) -> Session:
    """Log in on the jump host; errors there name the machine behind it."""
    try:
        return _log_in(through, keys, None, stack, limit)
    except (HostUnreachableError, LoginRefusedError) as error:
        raise type(error)(f"{route}: is reached through {through.name}, which is not accessible: {error.cause}", hint=error.hint) from None


def fingerprint(key: paramiko.PKey) -> str:
    """Return the fingerprint as `ssh-keygen -l` prints it."""
    return fingerprint_of(key.asbytes())


def fingerprint_of(blob: bytes) -> str:
    """Return the fingerprint of a decoded key from a .pub file."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _connect(route: SshRoute, first: Session | None, stack: ExitStack, limit: float) -> paramiko.Transport:
    """Exchange the handshake; the exit stack closes all connections."""
    try:
        channel = first.tunnel(route, limit) if first is not None else socket.create_connection((route.address, route.port), timeout=limit)
        stack.callback(channel.close)
        transport = paramiko.Transport(channel)
        stack.callback(transport.close)
        transport.banner_timeout, transport.auth_timeout = limit, limit * _AUTHENTICATION
        transport.get_security_options().key_types = _algorithms(route.host_key)
        transport.start_client(timeout=limit * 2)
    except (OSError, EOFError, paramiko.SSHException) as error:
        behind = f" behind {first.route.name}" if first is not None else ""
        kind = ConnectTimeoutError if _may_pass(error) else HostUnreachableError
        raise kind(f"{route}: no SSH server responds{behind}: {error or type(error).__name__}", hint=_REACH) from None
    return transport


def _may_pass(error: Exception) -> bool:
    """Return whether another attempt may succeed: after a time-out, or a connection that broke. A busy sshd drops some (MaxStartups).

    paramiko raises SSHException itself for both ("Timeout opening channel.", "Error reading SSH protocol banner"), and classes derived from
    it for an answer: a refused channel, no algorithm in common.
    """
    return isinstance(error, (TimeoutError, EOFError, ConnectionResetError, BrokenPipeError)) or type(error) is paramiko.SSHException


def _algorithms(host_key: str) -> tuple[str, ...]:
    """Return the key types to request: that of the given key, or for a fingerprint, which has no type, the best that the machine has."""
    kind, _, key = host_key.partition(" ")
    if not key:
        return ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    return ("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,)


def _authenticate(route: SshRoute, transport: paramiko.Transport, keys: list[Path]) -> None:
    offered = [key for path in keys if (key := _load(path)) is not None] + list(paramiko.Agent().get_keys())
    for key in offered:
        try:
            transport.auth_publickey(route.user, key)
        except paramiko.AuthenticationException:
            continue
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise LoginRefusedError(f"{route}: aborted the login: {error}", hint="check the journal of its sshd") from None
        else:
            return
    missing = "".join(f"; there is no file {path}" for path in keys if not path.expanduser().exists())
    raise LoginRefusedError(
        f"{route}: accepts none of the {len(offered)} keys offered{missing}",
        hint=f"put your public key into ~{route.user}/.ssh/authorized_keys there; name the key in target.ssh_private_key_file, "
        "or load it into the agent",
    )


def _load(path: Path) -> paramiko.PKey | None:
    try:
        return paramiko.PKey.from_path(path.expanduser())
    except FileNotFoundError:
        return None
    except (TypeError, paramiko.PasswordRequiredException):  # TypeError: paramiko passes on cryptography's error about a locked PEM key.
        raise LoginRefusedError(
            f"{path}: is protected by a passphrase", hint="load it into the agent (`ssh-add`), and leave target.ssh_private_key_file out"
        ) from None
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise LoginRefusedError(
            f"{path}: is not a private key: {error}", hint="name a private key in target.ssh_private_key_file"
        ) from None


_REACH: Final = "check that it runs, that address and port are right, and that no firewall blocks the connection"
