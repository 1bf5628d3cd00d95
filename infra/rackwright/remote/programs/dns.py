"""Run on the node, imported by smoke_pods: query a name server directly (RFC 1035, A records over UDP).

Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

RESOLVED = "/etc/rackwright/pods-resolv.conf"
"""File with the servers to which the cluster's DNS forwards names outside the cluster."""


def servers(path: str = RESOLVED) -> list[str]:
    """Return the name servers of a resolv.conf; none if there is no such file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        words = [line.split() for line in file]
    return [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]


PATIENCE = 2.0 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""Seconds for one response; the round measures the node's slowness (docs/adr/0026)."""


def ask(server: str, name: str, patience: float = PATIENCE) -> list[str] | None:
    """Return the addresses that a server has for a name, sorted; None if it does not respond in time, or refuses."""
    mark = os.urandom(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(patience)
        try:
            asking.connect((server, 53))
            asking.send(question(mark, name))
            answer = asking.recv(4096)
        except OSError:
            return None
    return addresses(answer) if answer[:2] == mark else None


def question(mark: bytes, name: str) -> bytes:
    """Return the query for the addresses of a name.

    >>> question(b"ab", "a.b.")
    b'ab\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x01a\\x01b\\x00\\x00\\x01\\x00\\x01'
    """
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.strip(".").split("."))
    return mark + struct.pack(">5H", 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)


def addresses(answer: bytes) -> list[str]:
    """Return the addresses in a response; none if the name does not exist."""
    questions, answered = struct.unpack(">2H", answer[4:8])
    place, found = 12, []
    for _ in range(questions):
        place = _after_name(answer, place) + 4
    for _ in range(answered):
        place = _after_name(answer, place)
        kind, _, _, size = struct.unpack(">2HIH", answer[place : place + 10])
        place += 10
        if kind == 1:
            found.append(socket.inet_ntoa(answer[place : place + 4]))
        place += size
    return sorted(found)


def _after_name(answer: bytes, place: int) -> int:
    """Return the offset at which the name at `place` ends; the name may end in a pointer of two bytes."""
    while answer[place]:
        if answer[place] >= 0xC0:
            return place + 2
        place += answer[place] + 1
    return place + 1


def known(names: Sequence[str]) -> dict[str, Any] | None:
    """Return each server's addresses for the first name that any server resolves; for the first name of all if no server resolves any."""
    found: dict[str, dict[str, list[str] | None]] = {}
    for name in names:
        found[name] = {server: ask(server, name) for server in servers()}
        if any(found[name].values()) or not any(result == [] for result in found[name].values()):
            return {"name": name, "servers": found[name]}
    return {"name": names[0], "servers": found[names[0]]} if names else None
