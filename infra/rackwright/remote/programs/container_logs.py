"""Run on the node: read the logs of a pod's containers, as the kubelet keeps them.

Input: {"now", "since", "until", "lines", "bytes", "seconds", "priority", "rules": as for journal, "namespace", "pod": name or pattern}.
Output: as of journal; "known" has each pod of the namespace on this node, and whether it is meant.
Python 3.9, standard library only.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from rackwright.remote.programs.journal import INFO, Answer, Wanted, limit_time, merge, severity, window
from rackwright.remote.programs.log_files import last_lines, microseconds

PODS = "/var/log/pods"
"""Folder of the kubelet's logs, NAMESPACE_POD_UID/CONTAINER/RESTARTS.log; /var/log/containers has links to the newest of them."""
CRI = re.compile(r"(stdout|stderr) ([PF])(?::\S*)? ?(.*)", re.DOTALL)
MOST_PART = 1 << 20
"""Characters of a line that is assembled from parts: containerd cuts lines at 16 KiB."""


def read_line(text: str) -> tuple[int, str, bool, str] | None:
    """Return microseconds, stream, whether the line is whole, and the text of a line in the format of CRI or of Docker.

    >>> read_line("2026-11-27T16:10:46.5Z stderr P first "), read_line('{"log":"a\\\\n","stream":"stdout","time":"2026-11-27T16:10:46Z"}')
    ((1795795846500000, 'stderr', False, 'first '), (1795795846000000, 'stdout', True, 'a'))
    >>> read_line("2026-11-27T16:10:46Z stdout F "), read_line("torn line")
    ((1795795846000000, 'stdout', True, ''), None)
    """
    if text.startswith("{"):
        try:
            row = json.loads(text)
            found = microseconds(str(row["time"]) + " ")
            log = str(row["log"])
        except (ValueError, KeyError, TypeError):
            return None
        return (found[0], str(row.get("stream", "")), log.endswith("\n"), log.rstrip("\n")) if found else None
    found = microseconds(text)
    line = CRI.match(text, found[1]) if found else None
    return (found[0], line.group(1), line.group(2) == "F", line.group(3)) if found and line else None


def entries(path: str, unit: str) -> Iterator[list[Any]]:
    """Yield the entries of a file, newest first. Parts of a line become one entry with the time of the first part."""
    waiting: dict[str, list[str]] = {}
    ends: dict[str, int] = {}
    for raw in last_lines(path):
        found = read_line(raw.decode("utf-8", "replace"))
        if found is None:
            continue
        moment, stream, whole, text = found
        if stream in waiting and whole:
            yield entry(ends[stream], unit, waiting.pop(stream))
        parts = waiting.setdefault(stream, [])
        if sum(map(len, parts)) < MOST_PART:
            parts.insert(0, text)
        ends[stream] = moment
    for stream, parts in waiting.items():
        yield entry(ends[stream], unit, parts)


def entry(moment: int, unit: str, parts: list[str]) -> list[Any]:
    """Return an entry as journal returns it."""
    message = "".join(parts)
    return [moment, unit, severity(INFO, message), None, message]


def folders(namespace: str) -> list[tuple[str, str]]:
    """Return name and folder of each pod of a namespace on this node, static pods without the node's name in theirs included."""
    try:
        names = sorted(os.listdir(PODS))
    except OSError:
        return []
    rows = [(name.split("_", 2), name) for name in names if name.count("_") >= 2]
    return [(parts[1], os.path.join(PODS, name)) for parts, name in rows if fnmatch.fnmatchcase(parts[0], namespace)]


def files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield container and path of each log of a pod that is not compressed, earlier starts of a container and rotated files included."""
    for container in sorted(os.listdir(folder)):
        for name in sorted(os.listdir(os.path.join(folder, container))):
            if re.fullmatch(r"\d+\.log(\.\d{8}-\d{6})?", name):
                yield container, os.path.join(folder, container, name)


def main(request: dict[str, Any]) -> Any:
    """Return the entries of the pods that are meant."""
    deadline = time.monotonic() + limit_time(request["seconds"])
    since, until = window(request, time.time())
    wanted = Wanted({**request, "units": ()}, since, until)
    known, parts, notes = {}, [], []
    for pod, folder in folders(request["namespace"]):
        known[pod] = known.get(pod, False) or fnmatch.fnmatchcase(pod, request["pod"])
        if not fnmatch.fnmatchcase(pod, request["pod"]):
            continue
        try:
            for container, path in files(folder):
                answer = Answer(request["lines"], request["bytes"], deadline)
                add(path, f"{request['namespace']}/{pod}/{container}", wanted, answer)
                parts.append((answer.entries, answer.cut))
        except OSError as error:
            notes.append(f"{folder}: cannot be read: {error.strerror}")
    found, cut = merge(parts, request["lines"])
    return {
        "entries": found,
        "now": time.time(),
        "cut": cut,
        "begins": None,
        "volatile": False,
        "known": known,
        "seen": [],
        "warnings": [],
        "notes": notes,
    }


def add(path: str, unit: str, wanted: Wanted, answer: Answer) -> None:
    """Add the wanted entries of a file."""
    for one in entries(path, unit):
        if answer.late() or (wanted.since is not None and one[0] < wanted.since * 1e6):
            return
        if wanted.has(one) and not answer.add(one):
            return
