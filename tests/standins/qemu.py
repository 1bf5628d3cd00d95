"""Stand-in for QEMU: a program that binds its QMP socket, answers a few commands and ends on `quit` or SIGTERM.

Words in the guest's name decide its behaviour: `fails` ends at once with a message, `mute` accepts no commands.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any


def install(folder: Path) -> None:
    """Write programs with QEMU's names into a folder for PATH."""
    folder.mkdir()
    scripts = {
        "qemu-system-x86_64": f'exec -a qemu-system-x86_64 {sys.executable} {__file__} "$@"',
        "qemu-img": 'for last in "$@"; do :; done; : > "$last"',
    }
    for name, body in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)


def main(arguments: list[str]) -> None:
    """Serve QMP in the working directory."""
    guest = arguments[arguments.index("-name") + 1]
    if "fails" in guest:
        sys.exit("qemu-system-x86_64: -netdev user,id=forward: Could not set up host forwarding rule 'tcp:127.0.0.1:2237-192.0.2.15:22'")
    if "mute" in guest:
        time.sleep(60)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("qmp.sock")
        server.listen(1)
        serve(server)


def serve(server: socket.socket) -> None:
    """Answer one client after the other; `stop`, `cont` and a file `panic` change the state. `cont` prints that file to the console."""
    status = "running"
    while True:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            send(connection, {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []}})
            for request in requests(connection):
                command = request["execute"]
                status = {"stop": "paused", "cont": "running"}.get(command, status)
                if os.path.exists("panic"):
                    status = "guest-panicked"
                if command == "cont" and os.path.exists("panic"):
                    Path("console.log").write_bytes(Path("panic").read_bytes())
                if command == "cont":
                    send(connection, {"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 0}})
                known = command in ("qmp_capabilities", "query-status", "stop", "cont", "set_link")
                answer = {"return": {"status": status}} if known else {"error": {"class": "CommandNotFound", "desc": f"no {command}"}}
                send(connection, {**answer, "id": request.get("id")})


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def requests(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Yield requests, which no byte separates (QMP specification, General Definitions: a stream of JSON objects)."""
    text = ""
    while received := connection.recv(65536):
        text += received.decode()
        while text.lstrip():
            try:
                request, end = json.JSONDecoder().raw_decode(text.lstrip())
            except ValueError:
                break
            text = text.lstrip()[end:]
            yield request


if __name__ == "__main__":
    main(sys.argv[1:])
