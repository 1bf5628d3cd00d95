"""Run on the node: forward HTTP requests to its Prometheus and Alertmanager, with the client's certificate, which stays on the node.

Input: {"host": name in the certificates, "ports": {daemon: port}}, then one request per line: {"id", "daemon", "method", "path", "type",
"body"}. Output: {"ready": true}, then for each request, in the order in which the daemons answer, {"id", "status", "type", "body"} with the
body compressed by zlib in base64, or {"id", "error"}. The program ends with its input. Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import sys
import threading
import zlib
from queue import Queue
from typing import Any

from rackwright.remote.programs.monitoring_api import FOLDER

PATIENCE = 60 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""Seconds for one answer. Prometheus itself ends a query after two minutes (prometheus, --query.timeout)."""
WORKERS = 6
"""Requests at a time: a browser sends six to one host (Chromium, kMaxSocketsPerGroup), and Prometheus answers twenty queries."""
MOST = 32 * 1024 * 1024
"""Bytes of one answer. Chosen: a range of 11,000 points of 100 series has 20 MB."""


class Daemons:
    """Connections of one thread, by daemon: a handshake with certificates takes longer than most queries."""

    def __init__(self, host: str, ports: dict[str, int], tls: ssl.SSLContext) -> None:
        self._host, self._ports, self._tls = host, ports, tls
        self._open: dict[str, http.client.HTTPSConnection] = {}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, or the reason why there is none. A connection that the daemon has closed meanwhile is opened again."""
        name = request["daemon"]
        kept = name in self._open
        try:
            return self._once(name, request)
        except (ConnectionError, http.client.HTTPException) as error:
            self._close(name)
            if not kept:
                return {"error": reason(name, error)}
        except (OSError, ValueError) as error:
            self._close(name)
            return {"error": reason(name, error)}
        try:
            return self._once(name, request)
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._close(name)
            return {"error": reason(name, error)}

    def _once(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        connection = self._open.get(name)
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, self._ports[name], context=self._tls, timeout=PATIENCE)
            self._open[name] = connection
        body = request.get("body") or None
        headers = {"Content-Type": request["type"]} if body is not None and request.get("type") else {}
        connection.request(request["method"], request["path"], body.encode() if body is not None else None, headers)
        answer = connection.getresponse()
        content = answer.read(MOST + 1)
        if len(content) > MOST:
            raise ValueError(f"the answer has more than {MOST // 1024 // 1024} MiB; ask for fewer series or a shorter time")
        return {
            "status": answer.status,
            "type": answer.headers.get("Content-Type", "text/plain"),
            "body": base64.b64encode(zlib.compress(content, 1)).decode(),
        }

    def _close(self, name: str) -> None:
        connection = self._open.pop(name, None)
        if connection is not None:
            connection.close()


def reason(name: str, error: Exception) -> str:
    """Return what happened to which daemon."""
    if isinstance(error, ConnectionRefusedError):
        return name + " does not listen on the node"
    if isinstance(error, (TimeoutError, ssl.SSLError)) and "timed out" in str(error):
        return f"{name} did not answer within {PATIENCE} s"
    return f"{name}: {error or type(error).__name__}"


def main(request: dict[str, Any]) -> None:
    """Answer requests until the input ends."""
    tls = context()
    waiting: Queue[dict[str, Any]] = Queue()
    lock = threading.Lock()

    def work() -> None:
        daemons = Daemons(request["host"], request["ports"], tls)
        while True:
            one = waiting.get()
            say({"id": one["id"], **daemons.ask(one)}, lock)

    for _ in range(WORKERS):
        threading.Thread(target=work, daemon=True).start()
    say({"ready": True}, lock)
    for line in sys.stdin:
        waiting.put(json.loads(line))


def context() -> ssl.SSLContext:
    """Return the client's side of TLS. Without a certificate the program ends with the reason."""
    try:
        tls = ssl.create_default_context(cafile=FOLDER + "/authority.crt")
        tls.load_cert_chain(FOLDER + "/client.crt", FOLDER + "/client.key")
    except OSError as error:
        sys.exit(f"{FOLDER}: the client's certificate cannot be read: {error.strerror or error}")
    return tls


def say(answer: dict[str, Any], lock: threading.Lock) -> None:
    """Print one line; the operator's machine may be gone, which ends the program."""
    with lock:
        try:
            print(json.dumps(answer), flush=True)
        except BrokenPipeError:
            os._exit(0)
