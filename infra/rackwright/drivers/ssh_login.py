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
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko

from rackwright.errors import RackwrightError

# paramiko logs the traceback of its exceptions as well; Python prints it where no handler is installed.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_CONNECT: Final = 5.0
"""Seconds to connect, and to receive the server's banner."""
_COMMAND: Final = 60.0
"""Time limit of a command, in seconds."""
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
        return f"{self.name} ({self.user}@{self.address}:{self.port})"


class HostUnreachableError(RackwrightError):
    """No SSH server responds at the address."""


class LoginRefusedError(RackwrightError):
    """The machine responds, but rackwright cannot use it as it is."""


@dataclass(frozen=True)
class CommandResult:
    """Result of a command."""

    status: int
    output: str
    stderr: str


class Handshake:
    """A connection to a machine that has presented its host key, before a login."""

    def __init__(self, route: SshRoute, transport: paramiko.Transport) -> None:
        self.route, self._transport = route, transport

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
        return Session(self.route, self._transport)


class Session:
    """A login on a machine."""

    def __init__(self, route: SshRoute, transport: paramiko.Transport) -> None:
        self.route, self._transport = route, transport

    @property
    def public_key(self) -> str:
        """Return the presented key: type and base64."""
        key = self._transport.get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"

    def run(self, script: str, *, root: bool = False) -> CommandResult:
        """Run a shell script as the login user, or as root."""
        shell = f"sh -c {shlex.quote(script)}"
        try:
            return self._run(f"sudo -n -- {shell}" if root and self.route.user != "root" else shell)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostUnreachableError(f"{self.route}: stopped responding: {error or type(error).__name__}", hint=_REACH) from None

    def _run(self, command: str) -> CommandResult:
        channel = self._transport.open_session(timeout=_CONNECT)
        channel.settimeout(_COMMAND)
        channel.exec_command(command)
        channel.shutdown_write()
        with channel.makefile("rb") as out, channel.makefile_stderr("rb") as err:
            output, stderr = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        return CommandResult(channel.recv_exit_status(), output, stderr.strip())

    def tunnel(self, route: SshRoute) -> paramiko.Channel:
        """Return a channel from the machine to another one."""
        return self._transport.open_channel("direct-tcpip", (route.address, route.port), ("127.0.0.1", 0), timeout=_CONNECT)


@contextmanager
def login(route: SshRoute, keys: list[Path], *, through: SshRoute | None = None) -> Iterator[Session]:
    """Log in, optionally through a jump host. Raise HostUnreachableError or LoginRefusedError with cause and hint."""
    with ExitStack() as stack:
        first = _first(route, through, keys, stack) if through is not None else None
        with _turns[route.address, route.port]:
            met = stack.enter_context(handshake(route, first))
            met.check_key()
            session = met.enter(keys)
        yield session


@contextmanager
def handshake(route: SshRoute, first: Session | None = None) -> Iterator[Handshake]:
    """Connect, optionally through a jump host's session, without a login and without a check of the key."""
    with ExitStack() as stack:
        yield Handshake(route, _connect(route, first, stack))


def _first(route: SshRoute, through: SshRoute, keys: list[Path], stack: ExitStack) -> Session:
    """Log in on the jump host; errors there name the machine behind it."""
    try:
        return stack.enter_context(login(through, keys))
    except (HostUnreachableError, LoginRefusedError) as error:
        raise type(error)(f"{route}: is reached through {through.name}, which is not accessible: {error.cause}", hint=error.hint) from None


def fingerprint(key: paramiko.PKey) -> str:
    """Return the fingerprint as `ssh-keygen -l` prints it."""
    return fingerprint_of(key.asbytes())


def fingerprint_of(blob: bytes) -> str:
    """Return the fingerprint of a decoded key from a .pub file."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _connect(route: SshRoute, first: Session | None, stack: ExitStack) -> paramiko.Transport:
    """Exchange the handshake; the exit stack closes all connections."""
    try:
        channel = first.tunnel(route) if first is not None else socket.create_connection((route.address, route.port), timeout=_CONNECT)
        stack.callback(channel.close)
        transport = paramiko.Transport(channel)
        stack.callback(transport.close)
        transport.banner_timeout = _CONNECT
        transport.get_security_options().key_types = _algorithms(route.host_key)
        transport.start_client(timeout=_CONNECT * 2)
    except (OSError, EOFError, paramiko.SSHException) as error:
        behind = f" behind {first.route.name}" if first is not None else ""
        raise HostUnreachableError(f"{route}: no SSH server responds{behind}: {error or type(error).__name__}", hint=_REACH) from None
    return transport


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
