"""Exchange data between all tasks over TCP, as an all-to-all collective does: each sends the same number of bytes to each other.

Arguments: --addresses JSON (node to its addresses, one per network), --mbit of each network, --mib that a node sends on each network, and
--seconds until it gives up. One task per node. Prints one line of JSON: {"value": MB/s that the task sent and received at least,
"error"}. A task sends no faster than --mbit, so that the figure of a healthy group does not depend on the CPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import threading
import time
from typing import Any

CHUNK = 2**15
"""Bytes of one write. At 40 Mbit/s a write falls due every 7 ms."""
RETRY_S = 0.1
"""Seconds between attempts to connect to a peer that does not listen yet. Chosen."""
READY = b"R"


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--addresses", type=json.loads, required=True)
    parser.add_argument("--mbit", type=float, required=True)
    parser.add_argument("--mib", type=float, default=8)
    parser.add_argument("--seconds", type=float, default=30)
    return parser.parse_args()


class SilentPeerError(Exception):
    """A node that did not connect, or sent nothing."""


def connect(peer: str, own: str, address: str, port: int, until: float) -> socket.socket:
    """Return a connection; retry while the peer does not listen yet."""
    while True:
        try:
            link = socket.create_connection((address, port), max(until - time.monotonic(), RETRY_S), (own, 0))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link
        except OSError as error:
            if time.monotonic() > until:
                raise SilentPeerError(peer + " does not respond at " + address + ": " + str(error)) from None
            time.sleep(RETRY_S)


def accept(server: socket.socket, count: int, names: dict[str, str], until: float) -> list[socket.socket]:
    """Return the connections of all peers."""
    found: list[socket.socket] = []
    missing = dict(names)
    while len(found) < count:
        server.settimeout(max(until - time.monotonic(), RETRY_S))
        try:
            link, (address, _) = server.accept()
        except OSError:
            raise SilentPeerError(", ".join(sorted(missing.values())) + " did not connect") from None
        missing.pop(address, None)
        found.append(link)
    return found


def send(links: list[socket.socket], count: int, rate: float, until: float) -> None:
    """Send so many bytes to each peer in turn, no faster than the rate in bytes per second. A peer that does not read delays no other."""
    began, sent, chunk = time.monotonic(), 0, bytes(CHUNK)
    left = dict.fromkeys(links, count)
    for link in links:
        link.setblocking(False)
    while left and time.monotonic() < until:
        due = began + sent / rate - time.monotonic()
        if due > 0:
            time.sleep(due)
        _, writable, _ = select.select([], list(left), [], max(until - time.monotonic(), 0))
        for link in writable:
            done = link.send(chunk[: left[link]])
            sent += done
            left[link] -= done
            if not left[link]:
                del left[link]


def receive(links: list[socket.socket], count: int, until: float) -> tuple[dict[socket.socket, int], float]:
    """Return the bytes that each peer sent, and when the last arrived."""
    received, last = dict.fromkeys(links, 0), time.monotonic()
    waiting = set(links)
    while waiting and time.monotonic() < until:
        readable, _, _ = select.select(list(waiting), [], [], max(until - time.monotonic(), 0))
        for link in readable:
            data = link.recv(2**18)
            received[link] += len(data)
            last = time.monotonic()
            if not data or received[link] >= count:
                waiting.discard(link)
    return received, last


def exchange(me: str, addresses: dict[str, list[str]], network: int, port: int, options: argparse.Namespace) -> float:
    """Exchange data on one network; return MB/s: what the slowest peer sent, as if all had sent as little."""
    until = time.monotonic() + options.seconds
    peers = sorted(set(addresses) - {me})
    place = sorted(addresses).index(me)
    peers = peers[place:] + peers[:place]  # Not all to the same node at first.
    server = socket.create_server((addresses[me][network], port), backlog=len(peers))
    outgoing = [connect(peer, addresses[me][network], addresses[peer][network], port, until) for peer in peers]
    incoming = accept(server, len(peers), {addresses[peer][network]: peer for peer in peers}, until)
    count = int(options.mib * 2**20 / len(peers))
    for link in outgoing:
        link.sendall(READY)
    for link in incoming:
        link.settimeout(max(until - time.monotonic(), RETRY_S))
        if link.recv(1) != READY:
            raise SilentPeerError(link.getpeername()[0] + " closed its connection")
    began = time.monotonic()
    sender = threading.Thread(target=send, args=(outgoing, count, options.mbit * 125000, until), daemon=True)
    sender.start()
    received, last = receive(incoming, count, until)
    sender.join(max(until - time.monotonic(), 0) + 1)
    if not all(received.values()):
        silent = [link.getpeername()[0] for link, done in received.items() if not done]
        raise SilentPeerError(", ".join(silent) + " sent nothing")
    if min(received.values()) < count:
        last = until
    return min(received.values()) * len(peers) / (last - began) / 1e6


def main() -> dict[str, Any]:
    """Exchange data on all networks at the same time."""
    options = arguments()
    me, addresses = os.environ["NODE_NAME"], options.addresses
    figures, errors = [0.0] * len(addresses[me]), []

    def run(network: int) -> None:
        try:
            figures[network] = exchange(me, addresses, network, int(os.environ["MASTER_PORT"]), options)
        except (SilentPeerError, OSError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run, args=(network,)) for network in range(len(figures))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"value": 0.0 if errors else sum(figures), "error": "; ".join(errors)}


if __name__ == "__main__":
    print(json.dumps(main()))
