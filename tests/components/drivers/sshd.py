"""A real SSH server in this process, for as long as a test needs one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import paramiko
from support.hang import HANG_SECONDS

Answer = Callable[[str], tuple[int, str, str]]
"""Result of a command: status, output, error text."""


class SshServer(paramiko.ServerInterface):
    """Accepts one key; without an answer to commands, the connection is closed at the first channel."""

    def __init__(self, key: paramiko.PKey, answer: Answer | None = None) -> None:
        self.key, self.answer, self.logins = key, answer, 0

    def get_allowed_auths(self, username: str) -> str:
        """Allow keys only."""
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Accept the one key."""
        self.logins += 1
        return paramiko.AUTH_SUCCESSFUL if key == self.key else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Accept sessions, where commands are answered."""
        return paramiko.OPEN_SUCCEEDED if kind == "session" and self.answer else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Run the command and send its result."""
        threading.Thread(target=self._end, args=(channel, command.decode()), daemon=True).start()
        return True

    def _end(self, channel: paramiko.Channel, command: str) -> None:
        assert self.answer is not None
        channel.recv(1)  # Wait for the client's end of input; it has received the start of the command by then.
        status, output, complaint = self.answer(command)
        with suppress(EOFError, OSError, paramiko.SSHException):
            channel.sendall(output.encode())
            channel.sendall_stderr(complaint.encode())
            channel.send_exit_status(status)
            channel.close()

    def check_channel_direct_tcpip_request(self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]) -> int:
        """Accept a tunnel, where commands are answered and a target listens."""
        if self.answer is None:
            return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            self.beyond = getattr(self, "beyond", {}) | {chanid: socket.create_connection(destination, timeout=HANG_SECONDS)}
        except OSError:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        return paramiko.OPEN_SUCCEEDED


@contextmanager
def served(door: SshServer, host_key: paramiko.PKey, address: str = "127.0.0.1") -> Iterator[int]:
    """Serve with a host key; yield the port at the address."""
    listening = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)

    def listen() -> None:
        with suppress(EOFError, OSError, paramiko.SSHException):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=_serve, args=(connection, door, host_key), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


def _serve(connection: socket.socket, door: SshServer, host_key: paramiko.PKey) -> None:
    transport = paramiko.Transport(connection)
    transport.add_server_key(host_key)
    with suppress(EOFError, OSError, paramiko.SSHException):
        transport.start_server(event=threading.Event(), server=door)
    channels = []  # paramiko closes a channel that nothing refers to: the client may send its command later than it opens the channel.
    while transport.is_active():
        channel = transport.accept(0.2)
        channels.append(channel)
        beyond = getattr(door, "beyond", {}).get(channel.chanid) if channel is not None else None
        if channel is not None and beyond is not None:
            threading.Thread(target=_pass_on, args=(channel.recv, beyond.sendall), daemon=True).start()
            threading.Thread(target=_pass_on, args=(beyond.recv, channel.sendall), daemon=True).start()


def _pass_on(receive: Callable[[int], bytes], send: Callable[[bytes], None]) -> None:
    with suppress(EOFError, OSError, paramiko.SSHException):
        while data := receive(4096):
            send(data)
