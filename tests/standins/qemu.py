"""Stand-in for QEMU: a program that binds its QMP socket, answers a few commands and ends on `quit` or SIGTERM.

It is told how to behave by words in the guest's name: `-fails` ends at once with a message, `-mute` accepts no commands.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time


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
    """Answer one client after the other; `stop`, `cont` and a file `panic` change the state."""
    status = "running"
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as stream:
            stream.write(b'{"QMP": {"version": {}, "capabilities": []}}\n')
            stream.flush()
            for line in stream:
                command = json.loads(line)["execute"]
                status = {"stop": "paused", "cont": "running", "system_reset": "running"}.get(command, status)
                if os.path.exists("panic"):
                    status = "guest-panicked" if command != "system_reset" else status
                answers = [{"event": "RESUME"}] if command == "cont" else []
                known = command in ("qmp_capabilities", "query-status", "stop", "cont", "system_reset", "set_link")
                last = {"return": {"status": status}} if known else {"error": {"class": "CommandNotFound", "desc": f"no {command}"}}
                stream.write(b"".join(json.dumps(one).encode() + b"\n" for one in (*answers, last)))
                stream.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
