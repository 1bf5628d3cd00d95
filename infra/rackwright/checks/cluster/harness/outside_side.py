"""Runs on this machine, and as text in a container that is no node; standard library only: whether a port lets one in, and what it says."""

import concurrent.futures
import socket
import sys

ACCEPTS = "accepts, and says nothing"
"""What is told of a port that lets a caller in without a word: to whoever must stay out it is open all the same."""
PATIENCE = 0.6
"""Seconds within which a kernel of the same machine takes a connection a hundred times over."""
WORDS = 3.0
"""Seconds for first words: they come from a process, for which a busy machine may have no time. That it lets one in is known by then."""


def banner(address, port, patience=PATIENCE):
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


def main(port, patience, *addresses):
    """A line per address, `ADDRESS WORDS`, all asked at once."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
        for address, words in zip(addresses, pool.map(lambda one: banner(one, int(port), float(patience)), addresses)):
            print(address, words)


if __name__ == "__main__":
    main(*sys.argv[1:])
