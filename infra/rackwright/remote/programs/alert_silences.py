"""Run on the node of Alertmanager, as root: let the silences of one owner be those of the request.

Input: {"host": name in the certificates, "port", "owner", "wanted": [{"nodes": names, "comment", "seconds": until its end}], "linger_s"}.
Output: {"created": count, "extended": count, "ended": count}. A silence that is not wanted any more ends after `linger_s`, when Prometheus
has read the nodes again; silences of others are left alone. Python 3.9, standard library only.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from rackwright.remote.programs.monitoring_api import Api, age

CREATOR = "rackwright"
"""Creator of the silences, followed by their owner."""
RENEWED = 3600
"""Seconds by which a silence may end earlier than wanted: it is not renewed for less."""


class Client(Protocol):
    """What sends requests to Alertmanager."""

    def get(self, path: str) -> Any:
        """Return the parsed answer."""

    def send(self, method: str, path: str, body: Any = None) -> str:
        """Return the text of the answer."""


def main(request: dict[str, Any]) -> Any:
    """Create, extend and end silences, and return how many. An error of Alertmanager ends the program with its text."""
    try:
        return reconcile(Api(request["host"], request["port"]), request, time.time())
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"alertmanager: {error}")


def reconcile(api: Client, request: dict[str, Any], now: float) -> dict[str, int]:
    """Compare the owner's silences with the wanted ones by nodes and comment, and change what differs."""
    creator = f"{CREATOR} {request['owner']}"
    live = [one for one in api.get("/api/v2/silences") if one["createdBy"] == creator and one["status"]["state"] != "expired"]
    bodies = [silence(wanted, creator, now) for wanted in request["wanted"]]
    wanted = {identity(body): body for body in bodies}
    counts = {"created": 0, "extended": 0, "ended": 0}
    for one in live:
        if identity(one) not in wanted:
            counts["ended"] += end(api, one, request["linger_s"], now)
    for key, body in wanted.items():
        known = [one for one in live if identity(one) == key]
        if not known:
            api.send("POST", "/api/v2/silences", body)
            counts["created"] += 1
        elif max(remaining(one, now) for one in known) < remaining(body, now) - RENEWED:
            api.send("POST", "/api/v2/silences", dict(body, id=known[0]["id"], startsAt=known[0]["startsAt"]))
            counts["extended"] += 1
    return counts


def end(api: Client, one: dict[str, Any], linger_s: float, now: float) -> int:
    """Let a silence end after some seconds; return 1 if it would have lasted longer."""
    if remaining(one, now) <= linger_s:
        return 0
    if linger_s <= 0:
        api.send("DELETE", f"/api/v2/silence/{one['id']}")
    else:
        kept = {key: one[key] for key in ("id", "matchers", "startsAt", "createdBy", "comment")}
        api.send("POST", "/api/v2/silences", dict(kept, endsAt=moment(now + linger_s)))
    return 1


def silence(wanted: dict[str, Any], creator: str, now: float) -> dict[str, Any]:
    """Return the body of a silence: alerts about some nodes, whose names have no special characters."""
    matcher = {"name": "instance", "value": "|".join(sorted(wanted["nodes"])), "isRegex": True, "isEqual": True}
    ends = moment(now + wanted["seconds"])
    return {"matchers": [matcher], "startsAt": moment(now), "endsAt": ends, "createdBy": creator, "comment": wanted["comment"]}


def identity(one: dict[str, Any]) -> tuple[str, str]:
    """Return what a silence is recognised by: nodes and comment."""
    return "|".join(matcher["value"] for matcher in one["matchers"]), one["comment"]


def remaining(one: dict[str, Any], now: float) -> float:
    """Return the seconds until a silence ends."""
    return -age(one["endsAt"], now)


def moment(seconds: float) -> str:
    """Return a time in RFC 3339.

    >>> moment(1795784783.5)
    '2026-11-27T13:06:23Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
