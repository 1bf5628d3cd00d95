"""Requests to a daemon of a node with a client certificate that never leaves this machine: TLS ends here, a relay on the node copies."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.inventory import paths
from rackwright.remote.command import python_arguments

_PATIENCE = 10.0
"""Seconds for the connection and for the response: an exporter takes 0.03 s, a new SSH connection through a jump host some seconds."""

_REFUSAL = 0.5
"""Seconds for a refusal: the server verifies a certificate in less than a millisecond, the rest is the way through SSH."""


def client_context(authority: str, client: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the settings of a client with a certificate and its key, which verifies servers against one authority."""
    context = ssl.create_default_context(cadata=authority)
    descriptor, name = tempfile.mkstemp()  # ssl reads keys from files only; mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(client["certificate"] + client["private_key"])
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
    return context


def request_through_node(stack: str, node: str, port: int, name: str, context: ssl.SSLContext) -> bytes:
    """Return the response of a port of the node to `GET /metrics`, headers included. `name`: in the server's certificate.

    Raises OSError without a response; ssl.SSLError is one.
    """
    patience = _PATIENCE * local_slowness()
    words = python_arguments("tcp_relay", {"port": port, "patience": patience})
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(patience)
        relay = subprocess.Popen(
            ["ssh", "-F", str(paths.ssh_config(stack)), node, quoted],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        try:
            with context.wrap_socket(ours, server_hostname=name) as connection:
                # With TLS 1.3 a server refuses after the client's handshake and closes; a request would discard its alert.
                connection.settimeout(_REFUSAL * local_slowness())
                with suppress(TimeoutError):
                    connection.recv(1)
                connection.settimeout(patience)
                connection.sendall(f"GET /metrics HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
                return b"".join(iter(lambda: connection.recv(65536), b""))
        finally:
            relay.kill()
            with suppress(subprocess.TimeoutExpired):
                relay.wait(patience)
