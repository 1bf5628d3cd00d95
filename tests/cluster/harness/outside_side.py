"""Runs on this machine, and as text in a container that is no node; standard library only: whether a port lets one in, and what it says."""

import concurrent.futures
import errno
import socket
import sys

ACCEPTS = "accepts, and says nothing"
"""What is told of a port that lets a caller in without a word: to whoever must stay out it is open all the same."""
PATIENCE = 0.6
"""Seconds within which a kernel of the same machine takes a connection a hundred times over."""
WORDS = 3.0
"""Seconds for first words: they come from a process, for which a busy machine may have no time. That it lets one in is known by then."""


KEPT_OUT = (errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH)
"""What a connection ends with that a packet filter or a kernel without a listener refuses (tcp(7); nft(8), reject)."""


def keeps_out(error):
    """Whether an error of a connection says that the other side let nobody in. All others say that this side could not ask."""
    return isinstance(error, socket.timeout) or error.errno in KEPT_OUT


def banner(address, port, patience=PATIENCE):
    """The first line of whatever listens there; empty where the port accepts no connection. A longer `patience` extends both limits.

    Raises OSError where this side could not ask.
    """
    try:
        return words(address, port, patience)
    except OSError as error:
        if not keeps_out(error):
            raise
        return ""


def words(address, port, patience, silent=ACCEPTS):
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


def main(port, patience, *addresses):
    """A line per address, `ADDRESS WORDS`, all asked at once."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
        for address, words in zip(addresses, pool.map(lambda one: banner(one, int(port), float(patience)), addresses)):
            print(address, words)


if __name__ == "__main__":
    main(*sys.argv[1:])
