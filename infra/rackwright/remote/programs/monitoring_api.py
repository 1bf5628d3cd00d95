"""Run on the node: query its Prometheus and Alertmanager as their client, or ask its ports without a certificate.

Input: {"topic": a key of TOPICS, "host": name in the certificates, "ports": {name: port}, "settle_s": seconds for the first readings,
"nodes_start": whether nodes may have been started just before}.
Output: what checks need of that topic, as JSON. Nothing is written, and no key is printed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import calendar
import http.client
import json
import os
import re
import socket
import ssl
import sys
import time
from typing import Any

FOLDER = "/etc/prometheus/tls"
PATIENCE = 5 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""Seconds for one response; the round measures the node's slowness (docs/adr/0026)."""
PAUSE = 0.5
"""Seconds between two queries while the first readings are awaited."""
NOT_LISTENING = "connection refused"
"""Result of a port without a daemon."""
ANSWERED = "answered"
"""Result of a port that served a request without a certificate."""


class Api:
    """Prometheus or Alertmanager, queried with the client certificate."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._tls = ssl.create_default_context(cafile=FOLDER + "/authority.crt")
        self._tls.load_cert_chain(FOLDER + "/client.crt", FOLDER + "/client.key")

    def get(self, path: str) -> Any:
        """Return the parsed answer. Raises OSError without one, ValueError for an answer that is no JSON."""
        return json.loads(self.send("GET", path))

    def send(self, method: str, path: str, body: Any = None) -> str:
        """Send a request, with a body as JSON, and return the text of the answer. Raises OSError for another status than 200."""
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if answer.status != 200:
            excerpt = " ".join(text.split())[:200]
            raise OSError(f"{path}: status {answer.status}: {excerpt}")
        return text


def age(moment: str, now: float) -> float:
    """Return the seconds since an RFC 3339 time in UTC; a time that never was (year 1) is old.

    >>> age("2026-11-27T13:06:21.5Z", 1795784783.5)
    2.0
    """
    found = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?", moment)
    if not found:
        raise ValueError(moment + " is not a time")
    seconds = calendar.timegm(time.strptime(found.group(1), "%Y-%m-%dT%H:%M:%S")) + float(found.group(2) or 0)
    return round(now - seconds, 1)


def targets(api: Api, request: dict[str, Any]) -> Any:
    """Return job, instance, health and error of each target, after the first reading of each.

    Where nodes are stopped when they are idle (`nodes_start`), one that was started for the checks is down until the next reading.
    """
    awaited = ("unknown", "down") if request.get("nodes_start") else ("unknown",)

    def read() -> list[list[str]]:
        active = api.get("/api/v1/targets?state=active")["data"]["activeTargets"]
        return [[one["labels"]["job"], one["labels"]["instance"], one["health"], one.get("lastError", "")] for one in active]

    return settled(read, lambda rows: bool(rows) and all(row[2] not in awaited for row in rows), request)


def rules(api: Api, request: dict[str, Any]) -> Any:
    """Return kind, name, health, error and seconds since the evaluation of each rule, after the first evaluation of each."""

    def read() -> list[list[Any]]:
        groups = api.get("/api/v1/rules")["data"]["groups"]
        now = time.time()
        every = [rule for group in groups for rule in group["rules"]]
        return [[rule["type"], rule["name"], rule["health"], rule.get("lastError", ""), age(rule["lastEvaluation"], now)] for rule in every]

    return settled(read, lambda rows: bool(rows) and all(row[2] != "unknown" for row in rows), request)


def firing(api: Api, request: dict[str, Any]) -> Any:
    """Return name, instance, severity and summary of each alert that fires."""
    found = api.get("/api/v1/alerts")["data"]["alerts"]
    return [
        [
            one["labels"]["alertname"],
            one["labels"].get("instance", ""),
            one["labels"].get("severity", ""),
            one["annotations"].get("summary", ""),
        ]
        for one in found
        if one["state"] == "firing"
    ]


def received(api: Api, request: dict[str, Any]) -> Any:
    """Return name and seconds since the last update of each alert that Alertmanager has, after the first has arrived."""

    def read() -> list[list[Any]]:
        now = time.time()
        return [[one["labels"]["alertname"], age(one["updatedAt"], now)] for one in api.get("/api/v2/alerts?active=true")]

    return settled(read, bool, request)


def alerts(api: Api, request: dict[str, Any]) -> Any:
    """Return labels, summary and age of each alert that fires and that nothing silences or inhibits."""
    found = api.get("/api/v2/alerts?active=true&silenced=false&inhibited=false")
    now = time.time()
    return [
        {"labels": one["labels"], "summary": one["annotations"].get("summary", ""), "age_s": age(one["startsAt"], now)} for one in found
    ]


def settled(read: Any, is_complete: Any, request: dict[str, Any]) -> Any:
    """Return what is read as soon as it is complete, at the latest after `settle_s`: a daemon that has just started has read nothing."""
    end = time.monotonic() + request["settle_s"]
    while True:
        try:
            rows = read()
        except ConnectionRefusedError:
            raise  # No daemon: it would have to be started first.
        except (OSError, ValueError):
            if time.monotonic() > end:
                raise
        else:
            if is_complete(rows) or time.monotonic() > end:
                return rows
        time.sleep(PAUSE)


def access(request: dict[str, Any]) -> Any:
    """Return by port what it says to a client without a certificate; the server's certificate is not verified."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    said = {name: without_certificate(request["host"], port, context) for name, port in request["ports"].items()}
    if said.get("node") == NOT_LISTENING:
        sys.exit(f"node: {NOT_LISTENING}")  # Nothing was asked: the check of the daemon reports it.
    return said


def without_certificate(host: str, port: int, context: ssl.SSLContext) -> str:
    """Return ANSWERED with the first line of the answer, the reason of the TLS alert, or the error of the connection.

    With TLS 1.3 a server refuses after the client's handshake. It is read before a request is sent: the server closes the connection then,
    and the request would discard the alert.
    """
    try:
        with socket.create_connection((host, port), PATIENCE) as plain, context.wrap_socket(plain, server_hostname=host) as connection:
            connection.settimeout(PATIENCE / 5)
            try:
                first = connection.recv(1)
            except socket.timeout:
                first = b""
            connection.settimeout(PATIENCE)
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: " + host.encode() + b"\r\n\r\n")
            answer = first + connection.recv(64)
        line = answer.decode("ascii", "replace").split("\r\n")[0]
        return f"{ANSWERED}: {line}"
    except ssl.SSLError as error:
        return (error.reason or str(error)).lower().replace("_", " ")
    except OSError as error:
        return (error.strerror or str(error)).lower()


TOPICS = {"targets": (targets, "prometheus"), "rules": (rules, "prometheus"), "firing": (firing, "prometheus")}
OF_ALERTMANAGER = {"received": (received, "alertmanager"), "alerts": (alerts, "alertmanager")}


def main(request: dict[str, Any]) -> Any:
    """Return the answer to a topic. An error of the daemon ends the program with its text."""
    if request["topic"] == "access":
        return access(request)
    query, daemon = {**TOPICS, **OF_ALERTMANAGER}[request["topic"]]
    try:
        return query(Api(request["host"], request["ports"][daemon]), request)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{daemon}: {error}")
