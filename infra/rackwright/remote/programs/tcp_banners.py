"""Run in a container that is no node, and imported on this machine: whether a port lets one in, and what it says.

Input: {"port", "patience": seconds, "addresses": [...]}. Output: a line `ADDRESS WORDS` for each address, not JSON.
Python 3.9, standard library only.
"""

from __future__ import annotations

import concurrent.futures
import socket
from typing import Any

ACCEPTS = "accepts, and says nothing"
"""What is told of a port that lets a caller in without a word: to whoever must stay out it is open all the same."""
PATIENCE = 0.6
"""Seconds within which a kernel of the same machine takes a connection a hundred times over."""
WORDS = 3.0
"""Seconds for first words: they come from a process, for which a busy machine may have no time. That it lets one in is known by then."""


def banner(address: str, port: int, patience: float = PATIENCE) -> str:
    """The first line of whatever listens there; empty where the port accepts no connection. A longer `patience` extends both limits."""
    try:
        connection = socket.create_connection((address, port), timeout=patience)
    except OSError:
        return ""
    with connection:
        connection.settimeout(WORDS * max(1.0, patience / PATIENCE))
        try:
            words = connection.recv(64)
        except OSError:
            words = b""
    return words.decode("ascii", "replace").split("\n", 1)[0].strip() or ACCEPTS


def main(request: dict[str, Any]) -> None:
    """A line per address, `ADDRESS WORDS`, all asked at once."""
    addresses = request["addresses"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
        for address, words in zip(addresses, pool.map(lambda one: banner(one, request["port"], request["patience"]), addresses)):
            print(address, words)
