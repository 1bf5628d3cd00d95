"""Run in a container that is no node, and imported on this machine: test whether a port accepts connections, and read its banner.

Input: {"port", "patience": seconds, "addresses": [...]}. Output: a line `ADDRESS WORDS` for each address, not JSON.
Python 3.9, standard library only.
"""

from __future__ import annotations

import concurrent.futures
import errno
import socket
from typing import Any

ACCEPTS = "accepts, but sends nothing"
"""Result for a port that accepts a connection and sends nothing: it is open, even without a banner."""
PATIENCE = 0.6
"""Seconds within which a kernel on the same machine accepts a connection a hundred times over."""
WORDS = 3.0
"""Seconds for the banner: it comes from a process, which a busy machine may delay. The connection is known to be accepted by then."""


REFUSALS = (errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Errors of a connection that a packet filter or a kernel without a listener refuses (tcp(7); nft(8), reject)."""


def is_refusal(error: OSError) -> bool:
    """Return whether an error shows that the server accepted no connection. All other errors show that this client could not connect."""
    return isinstance(error, socket.timeout) or error.errno in REFUSALS


def banner(address: str, port: int, patience: float = PATIENCE) -> str:
    """Return the first line that the server sends; empty if the port accepts no connection. A longer `patience` extends both limits.

    Raises OSError if this client could not connect.
    """
    try:
        return words(address, port, patience)
    except OSError as error:
        if not is_refusal(error):
            raise
        return ""


def words(address: str, port: int, patience: float, silent: str = ACCEPTS) -> str:
    """Return the first line that the server sends; `silent` if no line arrives in time. Raises OSError if there is no connection."""
    with socket.create_connection((address, port), timeout=patience) as connection:
        connection.settimeout(WORDS * max(1.0, patience / PATIENCE))
        try:
            received = connection.recv(64)
        except socket.timeout:
            return silent
        except OSError:
            received = b""
    return received.decode("ascii", "replace").split("\n", 1)[0].strip() or ACCEPTS


def main(request: dict[str, Any]) -> None:
    """Print a line per address, `ADDRESS WORDS`; all addresses are queried at once."""
    addresses = request["addresses"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
        for address, words in zip(addresses, pool.map(lambda one: banner(one, request["port"], request["patience"]), addresses)):
            print(address, words)
