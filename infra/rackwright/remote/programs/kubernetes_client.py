"""Run on the node, imported by other programs: the Kubernetes API over https, in the name of a kubeconfig's user.

Directly, because kubectl takes longer to start than the request takes. Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import IO, Any

ADMIN = "/etc/kubernetes/admin.conf"


class ApiRefusedError(Exception):
    """A request that the API refused."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


def credentials(path: str = ADMIN) -> tuple[urllib.parse.SplitResult, ssl.SSLContext]:
    """Return the API's address and the administrator's TLS context, from a kubeconfig with embedded credentials."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = dict(re.findall(r"^\s*(server|certificate-authority-data|client-certificate-data|client-key-data): *(\S+)", text, re.MULTILINE))
    context = ssl.create_default_context(cadata=base64.b64decode(found["certificate-authority-data"]).decode())
    # The ssl module reads keys only from files; a file in memory is not left behind by a killed run.
    held = os.memfd_create("administrator")
    try:
        os.write(held, base64.b64decode(found["client-certificate-data"]) + b"\n" + base64.b64decode(found["client-key-data"]))
        context.load_cert_chain("/proc/self/fd/" + str(held))
    finally:
        os.close(held)
    return urllib.parse.urlsplit(found["server"]), context


class Api:
    """The Kubernetes API, with one persistent connection per thread."""

    def __init__(self, path: str = ADMIN, patience: float = 10) -> None:
        self.where, self.context = credentials(path)
        self.patience = patience
        self.mine = threading.local()

    def connect(self, patience: float) -> http.client.HTTPSConnection:
        """Open a new connection."""
        return http.client.HTTPSConnection(self.where.hostname or "", self.where.port or 443, context=self.context, timeout=patience)

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Send a request; return the response: an object, or text if it is no JSON. Raises ApiRefusedError."""
        headers = {"Accept": "application/json, */*", "Content-Type": kind}
        sent = None if body is None else json.dumps(body)
        try:
            return self._request(method, path, sent, headers)
        except (ConnectionError, http.client.HTTPException):
            # The server may have closed a persistent connection; the client notices at the next request.
            self.mine.connection.close()
            self.mine.connection = None
            return self._request(method, path, sent, headers)

    def _request(self, method: str, path: str, sent: str | None, headers: dict[str, str]) -> Any:
        if getattr(self.mine, "connection", None) is None:
            self.mine.connection = self.connect(self.patience)
        self.mine.connection.request(method, path, sent, headers)
        answer = self.mine.connection.getresponse()
        return self._read(answer, answer.read().decode("utf-8", "replace"))

    def _read(self, answer: http.client.HTTPResponse, text: str) -> Any:
        if "json" not in (answer.getheader("Content-Type") or ""):
            if answer.status >= 400:
                raise ApiRefusedError(answer.status, text.strip()[:400])
            return text
        data = json.loads(text)
        if answer.status >= 400:
            raise ApiRefusedError(answer.status, data.get("message") or str(answer.status), data.get("reason") or "")
        return data

    def get(self, path: str) -> Any:
        """Return an object, a list, or the text of a log."""
        return self.call("GET", path)

    def post(self, path: str, body: Any) -> Any:
        """Create an object."""
        return self.call("POST", path, body)

    def touch(self, path: str) -> Any:
        """Trigger the control plane to process an object again."""
        now = {"metadata": {"annotations": {"rackwright/touched": str(time.time())}}}
        return self.call("PATCH", path, now, "application/merge-patch+json")

    def delete(self, path: str, grace: int | None = None) -> Any:
        """Delete an object, or all of a list; a missing object counts as deleted."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        try:
            return self.call("DELETE", path, options if grace is None else dict(options, gracePeriodSeconds=grace))
        except ApiRefusedError as refused:
            if refused.status != 404:
                raise
            return None

    def follow(self, path: str, version: str, patience: float) -> Iterator[tuple[str, Any]]:
        """Yield events of a list from a version on, as (type, object), until the server or the time limit ends the watch."""
        connection = self.connect(patience)
        try:
            connection.request("GET", path + "?watch=1&resourceVersion=" + version, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiRefusedError(answer.status, answer.read().decode("utf-8", "replace")[:400])
            for line in answer:
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def run_in(self, pod: str, words: Sequence[str], patience: float) -> dict[str, Any]:
        """Run a command in a pod's container; return {"rc", "out", "said"}. rc is None if the API did not start the command."""
        query = urllib.parse.urlencode([("command", word) for word in words] + [("stdout", "true"), ("stderr", "true")])
        connection = self.connect(patience)
        try:
            answer = _upgraded(connection, pod + "/exec?" + query)
            return _conversation(answer.fp, time.monotonic() + patience, connection.sock)
        except ApiRefusedError as refused:
            return {"rc": None, "out": "", "said": str(refused)}
        except (OSError, http.client.HTTPException, ValueError) as error:
            return {
                "rc": None,
                "out": "",
                "said": f"no end after {patience:.0f} s" if isinstance(error, socket.timeout) else str(error),
            }
        finally:
            connection.close()


def _upgraded(connection: http.client.HTTPSConnection, path: str) -> http.client.HTTPResponse:
    """Return the response that switches to WebSocket (RFC 6455), as Kubernetes requires it for exec."""
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
    }
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    if answer.status != 101:
        text = answer.read().decode("utf-8", "replace")
        with contextlib.suppress(ValueError, KeyError):
            text = json.loads(text)["message"]
        raise ApiRefusedError(answer.status, text.strip()[:400])
    return answer


def _conversation(stream: IO[bytes], deadline: float, sock: socket.socket) -> dict[str, Any]:
    """Return the whole output of a command: channel 1 is stdout, 2 stderr, 3 its status."""
    channels = {1: b"", 2: b"", 3: b""}
    while True:
        sock.settimeout(max(0.1, deadline - time.monotonic()))
        frame = _frame(stream)
        if frame is None:
            break
        if frame and frame[0] in channels:
            channels[frame[0]] += frame[1:]
        if channels[3]:
            break
    out, complaint = channels[1].decode("utf-8", "replace"), channels[2].decode("utf-8", "replace").strip()
    if not channels[3]:
        return {"rc": None, "out": out, "said": complaint or "the connection ended before the command"}
    rc, why = ended(json.loads(channels[3]))
    return {"rc": rc, "out": out, "said": (complaint or why)[-400:]}


def ended(status: dict[str, Any]) -> tuple[int | None, str]:
    """Return the exit code of a command, None if it never started, and the reason; from the status that channel 3 carries."""
    if status.get("status") == "Success":
        return 0, ""
    causes = (status.get("details") or {}).get("causes") or []
    codes = [cause["message"] for cause in causes if cause.get("reason") == "ExitCode"]
    return (int(codes[0]) if codes else None), status.get("message") or ""


def _frame(stream: IO[bytes]) -> bytes | None:
    """Return the payload of the next data frame; None if the server closed the connection."""
    while True:
        head = stream.read(2)
        if len(head) < 2:
            return None
        kind, size = head[0] & 15, head[1] & 127
        if size > 125:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        payload = stream.read(size)
        if kind == 8:
            return None
        if kind in (0, 1, 2):
            return payload
