"""Daemons with certificates, and an `ssh` that runs its command on this machine: `rackwright monitor` without a cluster."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.programs import edit_program

from rackwright.drivers.certificates import create_authority, create_certificate

SSH = """#!/bin/sh
# The options are not needed: the command runs on this machine.
[ "$1" = -F ] && shift 2
shift
exec sh -c "exec $*"
"""


@dataclass
class Daemon:
    """A daemon that answers each path, and records what it was asked."""

    port: int
    answers: dict[str, Any]
    asked: list[tuple[str, str, str]] = field(default_factory=list)


@contextmanager
def daemon(folder: Path, answers: dict[str, Any]) -> Iterator[Daemon]:
    """Run a daemon on `localhost` that demands a certificate of the authority in the folder (`certificates`)."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(folder / "authority.crt")
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            running.asked.append((self.command, self.path, body))
            status, answer = answers.get(self.path.partition("?")[0], (404, {"status": "error", "error": "no such path"}))
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    running = Daemon(server.server_port, answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()


def certificates(folder: Path) -> None:
    """Write an authority, a server's certificate for `localhost` and a client's into a folder."""
    now = datetime.now(UTC)
    authority = create_authority("test", now)
    (folder / "authority.crt").write_text(authority.certificate)
    for name, usage, names in (("server", "server", ["localhost"]), ("client", "client", ["prometheus"])):
        made = create_certificate(name, usage, names, authority, now)
        (folder / f"{name}.crt").write_text(made.certificate)
        (folder / f"{name}.key").write_text(made.private_key)


def ssh_runs_here(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put an `ssh` first in PATH that runs commands on this machine, with the certificates of the folder."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(SSH)
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    edit_program(monkeypatch, "monitoring_api", lambda text: text.replace('FOLDER = "/etc/prometheus/tls"', f'FOLDER = "{folder}"'))
