"""A receiver of alerts on the monitoring node of a lab, in place of an operator's."""

from __future__ import annotations

import json
import time
from typing import Final

from support.project import Project

PORT: Final = 8099
PATIENCE: Final = 240.0
"""Seconds until an alert must have arrived: the longest `for` of those that tests await is one minute, and a starved machine is slow."""
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
    """Return status, name and instance of every alert that arrived. Raise AssertionError where the node cannot be asked."""
    said = project.ssh("login0", f"test ! -e {_RECEIVED} || cat {_RECEIVED}")
    assert said.ok, said.end
    lines = said.output.splitlines()
    found = [alert for line in lines if line.startswith("{") for alert in json.loads(line)["alerts"]]
    return [(alert["status"], alert["labels"]["alertname"], alert["labels"].get("instance", "")) for alert in found]


def await_alert(project: Project, *wanted: tuple[str, str, str], patience: float = PATIENCE) -> None:
    """Wait until the alerts have arrived, and print the seconds until each had. Raise AssertionError with those that did."""
    began, seconds = time.monotonic(), dict[tuple[str, str, str], int]()
    while missing := set(wanted) - set(seconds):
        found = received(project)
        seconds |= dict.fromkeys(missing & set(found), round(time.monotonic() - began))
        assert missing <= set(found) or time.monotonic() < began + patience, f"{missing - set(found)} did not arrive: {found}"
        time.sleep(2)
    print(f"seconds until the receiver had each alert: {seconds}")
