"""Run in a container that is no node, and imported on this machine: whether a port lets one in, and what it says.

Input: {"port", "patience": seconds, "addresses": [...]}. Output: a line `ADDRESS WORDS` for each address, not JSON.
Python 3.9, standard library only.
"""

from __future__ import annotations

import concurrent.futures
import errno
import socket
from typing import Any

ACCEPTS = "accepts, and says nothing"
"""What is told of a port that lets a caller in without a word: to whoever must stay out it is open all the same."""
PATIENCE = 0.6
"""Seconds within which a kernel of the same machine takes a connection a hundred times over."""
WORDS = 3.0
"""Seconds for first words: they come from a process, for which a busy machine may have no time. That it lets one in is known by then."""


KEPT_OUT = (errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH)
"""What a connection ends with that a packet filter or a kernel without a listener refuses (tcp(7); nft(8), reject)."""


def keeps_out(error: OSError) -> bool:
    """Whether an error of a connection says that the other side let nobody in. All others say that this side could not ask."""
    return isinstance(error, socket.timeout) or error.errno in KEPT_OUT


def banner(address: str, port: int, patience: float = PATIENCE) -> str:
    """The first line of whatever listens there; empty where the port accepts no connection. A longer `patience` extends both limits.

    Raises OSError where this side could not ask.
    """
    try:
        return words(address, port, patience)
    except OSError as error:
        if not keeps_out(error):
            raise
        return ""


def words(address: str, port: int, patience: float, silent: str = ACCEPTS) -> str:
    """The first line of whatever listens there; `silent` where no line comes in time. Raises OSError where no connection comes about."""
    with socket.create_connection((address, port), timeout=patience) as connection:
        connection.settimeout(WORDS * max(1.0, patience / PATIENCE))
        try:
            said = connection.recv(64)
        except socket.timeout:
            return silent
        except OSError:
            said = b""
    return said.decode("ascii", "replace").split("\n", 1)[0].strip() or ACCEPTS


def main(request: dict[str, Any]) -> None:
    """A line per address, `ADDRESS WORDS`, all asked at once."""
    addresses = request["addresses"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
        for address, words in zip(addresses, pool.map(lambda one: banner(one, request["port"], request["patience"]), addresses)):
            print(address, words)
