"""A receiver of alerts on the monitoring node of a lab, in place of an operator's."""

from __future__ import annotations

import json
from typing import Final

from support.project import Project

PORT: Final = 8099
_RECEIVED: Final = "/run/received.jsonl"
_RECEIVE: Final = f"""
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open("{_RECEIVED}", "ab") as stream:
            stream.write(self.rfile.read(int(self.headers["Content-Length"])) + b"\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", {PORT}), Handler).serve_forever()
"""


def start_receiver(project: Project) -> None:
    """Start the receiver, which answers http://127.0.0.1:PORT/ on the monitoring node."""
    started = project.ssh("login0", f"systemd-run --unit=receiver python3 -c '{_RECEIVE}'")
    assert started.ok, started.output


def received(project: Project) -> list[tuple[str, str, str]]:
    """Return status, name and instance of every alert that arrived."""
    lines = project.ssh("login0", f"cat {_RECEIVED} 2>/dev/null; true").output.splitlines()
    found = [alert for line in lines if line.startswith("{") for alert in json.loads(line)["alerts"]]
    return [(alert["status"], alert["labels"]["alertname"], alert["labels"].get("instance", "")) for alert in found]
