"""The HTTP server: completions, models, health and metrics; and its end, which loses no request.

Each answer ends its connection: a client that reuses an idle one could send a request to a server that is about to end.
"""

from __future__ import annotations

import codecs
import json
import select
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from rackwright.workloads.inference import api, metrics
from rackwright.workloads.inference.engine import Engine, Generation, QueueFullError

RETRY_AFTER: Final = 1
"""Seconds after which a refused client may try again. Chosen: a batch of the demo takes less than a second."""
_SLOW: Final = 30.0
"""Seconds that a connection may be silent. A client that sends nothing must not delay the end of the server."""
_BACKLOG: Final = 128
"""Connections that may wait to be accepted. The default of Python, 5, drops connections of a burst."""


@dataclass(frozen=True)
class Drain:
    """How the server ends after SIGTERM."""

    least: float = 8.0
    """Seconds during which it accepts connections in any case: the removal of an endpoint reaches kube-proxy on each node in that time."""
    quiet: float = 2.0
    """Seconds without a request for tokens after which it stops to accept."""
    most: float = 60.0
    """Seconds after which it ends with requests in progress."""


class ModelServer(ThreadingHTTPServer):
    """The server of one model."""

    request_queue_size = _BACKLOG
    daemon_threads = True
    """A thread must not keep the process alive; `drain` waits for requests itself."""

    def __init__(self, address: tuple[str, int], engine: Engine, model_name: str, fingerprint: str) -> None:
        super().__init__(address, _Handler)
        self.engine, self.model_name, self.fingerprint = engine, model_name, fingerprint
        self.created = int(time.time())
        self.is_draining = False
        self._open, self._arrived, self._lock = 0, time.monotonic(), threading.Lock()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        found = super().get_request()
        with self._lock:
            self._open += 1
        return found

    def note_arrival(self) -> None:
        """Remember when the last request for tokens arrived. Probes do not count: a kubelet sends them until the container has ended."""
        self._arrived = time.monotonic()

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        super().shutdown_request(request)
        with self._lock:
            self._open -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that has gone is no fault of the server."""

    def drain(self, how: Drain) -> int:
        """Refuse health checks, go on to accept and answer until no client comes any more, then end; return the requests that were cut."""
        self.is_draining = True
        begun = time.monotonic()
        while (now := time.monotonic()) - begun < how.most:
            if now - begun >= how.least and now - self._arrived >= how.quiet:
                break
            time.sleep(0.05)
        self.shutdown()
        # Connections that were established in the meantime are in the backlog; to close it would reset them.
        while select.select([self.socket], [], [], 0)[0]:
            self.handle_request()
        while self._open and time.monotonic() - begun < how.most:
            time.sleep(0.05)
        self.server_close()
        return self._open


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server_version = "rackwright"
    timeout = _SLOW
    server: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: metrics count requests."""

    def do_GET(self) -> None:
        """Answer for health, metrics and models."""
        path = self.path.partition("?")[0]
        if path == "/health":
            is_healthy = self.server.engine.is_alive() and not self.server.is_draining
            self._send(200 if is_healthy else 503, {"status": "ok" if is_healthy else "draining" if self.server.is_draining else "failed"})
        elif path == "/metrics":
            self._send_bytes(200, self.server.engine.metrics.text().encode(), metrics.CONTENT_TYPE)
        elif path == "/v1/models":
            self._send(200, {"object": "list", "data": [self._model()]})
        else:
            self._refuse(api.BadRequestError(f"{path}: there is no such path", status=404, kind="not_found_error"))

    def do_POST(self) -> None:
        """Generate."""
        self.server.note_arrival()
        try:
            if self.path.partition("?")[0] != "/v1/completions":
                raise api.BadRequestError(f"{self.path}: there is no such path", status=404, kind="not_found_error")
            completion = api.parse(self._body(), self.server.model_name, self.server.engine.model.context)
            self.server.engine.submit(completion.generation)
        except api.BadRequestError as error:
            return self._refuse(error)
        except QueueFullError:
            full = api.error_body("too many requests wait; try again later", "rate_limit_error", code="rate_limit_exceeded")
            return self._send(429, full, {"Retry-After": str(RETRY_AFTER)})
        answer = api.Answer.new(f"cmpl-{uuid.uuid4().hex}", self.server.model_name, self.server.fingerprint)
        try:
            return self._stream(completion, answer) if completion.stream else self._complete(completion.generation, answer)
        except OSError:  # The client has gone.
            completion.generation.is_cancelled = True
        return None

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise api.BadRequestError("the request has no Content-Length", status=411)
        if int(length) > api.MAX_BODY:
            raise api.BadRequestError(f"the body has {length} bytes (expected at most {api.MAX_BODY})", status=413)
        return self.rfile.read(int(length))

    def _model(self) -> dict[str, Any]:
        server = self.server
        known = {"id": server.model_name, "object": "model", "created": server.created, "owned_by": "rackwright"}
        return {**known, "root": server.fingerprint, "max_model_len": server.engine.model.context}

    def _complete(self, generation: Generation, answer: api.Answer) -> None:
        reason = ""
        while not reason:
            token = generation.tokens.get()
            reason = token if isinstance(token, str) else ""
        if reason.startswith("error"):
            return self._send(500, api.error_body(reason, "server_error"))
        text = bytes(generation.output).decode("utf-8", "replace")
        return self._send(200, answer.body(text, reason, api.usage_of(generation)))

    def _stream(self, completion: api.Completion, answer: api.Answer) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        for part in _parts(completion, answer):
            data = f"data: {part if isinstance(part, str) else json.dumps(part)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, error: api.BadRequestError) -> None:
        self._send(error.status, api.error_body(str(error), error.kind, error.param))

    def _send(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._send_bytes(status, json.dumps(body).encode(), "application/json", headers)

    def _send_bytes(self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
        self.close_connection = True
        self.send_response(status)
        always = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**always, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _parts(completion: api.Completion, answer: api.Answer) -> Iterator[dict[str, Any] | str]:
    """Yield the parts of a stream. A character of several bytes is sent with its last one."""
    generation, decoder = completion.generation, codecs.getincrementaldecoder("utf-8")("replace")
    while isinstance(token := generation.tokens.get(), int):
        yield answer.body(decoder.decode(bytes([token])), None)
    if token.startswith("error"):
        yield api.error_body(token, "server_error")
        return
    yield answer.body(decoder.decode(b"", final=True), token)
    if completion.has_usage:
        yield answer.usage_body(api.usage_of(generation))
    yield "[DONE]"
