"""An HTTP server on this machine that serves the page of boards and forwards requests to Prometheus and Alertmanager.

It listens on 127.0.0.1, where every user of this machine can connect. Each path starts with a random word that only the operator gets.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from rackwright.drivers.monitoring_relay import Daemon, MonitoringRelay, RelayRequest
from rackwright.errors import InputError, UndeterminedError
from rackwright.report.boards.page import PageFile

HERE: Final = "127.0.0.1"
_POLL: Final = 0.5
"""Seconds until a lost session or a signal is seen."""
_LONGEST_BODY: Final = 1024 * 1024
"""Bytes of a query that is sent by POST. Chosen: expressions have some hundred bytes."""
_READABLE: Final[Mapping[Daemon, tuple[str, ...]]] = {
    "prometheus": ("/api/v1/", "/metrics", "/-/healthy", "/-/ready"),
    "alertmanager": ("/api/v2/", "/metrics", "/-/healthy", "/-/ready"),
}
"""Starts of paths that are forwarded. The daemons' own pages use absolute links, and Debian leaves them out in part."""
_DAEMONS: Final[Mapping[str, Daemon]] = {"prometheus": "prometheus", "alertmanager": "alertmanager"}
_POSTED: Final = frozenset(f"/api/v1/{name}" for name in ("query", "query_range", "query_exemplars", "series", "labels", "format_query"))
"""Paths of Prometheus that read by POST as well; Grafana does so by default."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:",
    "Referrer-Policy": "no-referrer",  # The address holds the token.
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Addresses:
    """URLs of a server, with the token."""

    page: str
    prometheus: str
    alertmanager: str


class BoardServer(ThreadingHTTPServer):
    """The server of one session; a context manager that closes the port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, relay: MonitoringRelay, pages: Mapping[str, PageFile], port: int = 0) -> None:
        """Listen on a port, 0 for a free one. Raises InputError if the port cannot be had."""
        self.relay, self.pages = relay, pages
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HERE, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"cannot listen on {HERE}:{port}: {why}", path="--port", hint="pass another port, or none for a free one"
            ) from None

    @property
    def addresses(self) -> Addresses:
        """Return the URLs."""
        base = f"http://{HERE}:{self.server_port}/{self.token}"
        return Addresses(f"{base}/", f"{base}/prometheus", f"{base}/alertmanager")

    def serve(self) -> None:
        """Serve until the session is lost, which raises UndeterminedError. KeyboardInterrupt passes through."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": _POLL}, daemon=True)
        thread.start()
        try:
            while not self.relay.lost.wait(_POLL):
                pass
        finally:
            self.shutdown()
            thread.join()
        hint = "check the network to the cluster and the node itself, then run the command again"
        raise UndeterminedError(f"the tunnel is lost: {self.relay.why_lost()}", path=self.relay.node, hint=hint)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closed its connection; anything else is answered in the handler."""


class _Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: BoardServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rackwright", ""

    def do_GET(self) -> None:
        self._answer("")

    def do_HEAD(self) -> None:
        self._answer("")

    def do_POST(self) -> None:
        length = _length(self.headers)
        if length is None:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"the body has no length, or is too long\n")
            return
        self._answer(self.rfile.read(length).decode("utf-8", "replace"))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the paths hold the token."""

    def _answer(self, body: str) -> None:
        token, _, rest = self.path[1:].partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"use the address that `rackwright monitor` printed\n")
            return
        name, slash, path = rest.partition("/")
        if slash and (daemon := _DAEMONS.get(name)) is not None:
            self._forward(daemon, f"/{path}", body)
        elif self.command != "POST" and (file := self.server.pages.get(urlsplit(rest).path)) is not None:
            self._send(HTTPStatus.OK, file.type, file.content)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page\n")

    def _forward(self, daemon: Daemon, path: str, body: str) -> None:
        plain = urlsplit(path).path
        is_post = self.command == "POST"
        if ".." in plain or not plain.startswith(_READABLE[daemon]) or (is_post and not (daemon == "prometheus" and plain in _POSTED)):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this server forwards requests that read, and no others\n")
            return
        kind = self.headers.get("Content-Type", "") if is_post else ""
        try:
            answer = self.server.relay.send(RelayRequest(daemon, path, "POST" if is_post else "GET", kind, body))
        except UndeterminedError as error:
            self._send(HTTPStatus.BAD_GATEWAY, "text/plain; charset=utf-8", f"{error}\n".encode())
            return
        self._send(answer.status, answer.type, answer.body)

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _length(headers: Message) -> int | None:
    """Return the length of a body; None without one, or for one that is too long."""
    found = headers.get("Content-Length", "")
    return int(found) if found.isdecimal() and int(found) <= _LONGEST_BODY else None
