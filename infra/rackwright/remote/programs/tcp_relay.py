"""Run on the node: connect standard input and output with a port of the node itself.

Input: {"port", "patience": seconds without data after which it ends}. Output: what the port sends, not JSON.
Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from typing import Any

BLOCK = 65536
"""Bytes of one read: the capacity of a pipe (pipe(7))."""


def main(request: dict[str, Any]) -> None:
    """Copy both ways until one side ends. An error of the connection ends the program with its text."""
    try:
        with socket.create_connection(("127.0.0.1", request["port"]), timeout=request["patience"]) as connection:
            relay(connection, request["patience"])
    except OSError as error:
        sys.exit(error.strerror or str(error))


def relay(connection: socket.socket, patience: float) -> None:
    """Copy standard input to the connection and the connection to standard output."""
    while True:
        ready = select.select([connection.fileno(), 0], [], [], patience)[0]
        if not ready:
            return
        if 0 in ready:
            sent = os.read(0, BLOCK)
            if not sent:
                return
            connection.sendall(sent)
        if connection.fileno() in ready:
            received = connection.recv(BLOCK)
            if not received:
                return
            while received:
                received = received[os.write(1, received) :]
