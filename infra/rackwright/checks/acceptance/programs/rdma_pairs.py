"""Measure each rail to one other node: ib_write_bw, then ib_write_lat. The arguments name the pairs; one task per node.

Arguments: --rails DEVICE… and --pairs JSON, a list of [server, client]. With --count, for software RDMA: ib_write_bw by number of
messages, then rping to the server's address of the rail (--addresses JSON, node to its addresses by rail). Prints one line of JSON:
{"role", "one", "other", "meetings": [{"rail", "tool", "rc", "out", "err"}]}; clients have results, servers only what failed, and a node
without a partner rests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

PORT = 18515
"""perftest's own default; each rail and tool uses the next port."""
DEVICES = "/sys/class/infiniband"
REFUSED = re.compile("Couldn't connect|Unable to init the socket connection|connect error|RDMA_CM_EVENT_REJECTED, error 8\\b")
"""A client whose server does not listen: perftest over TCP, and rping. perftest's header has `Connection type`, also before a failure.
8 is IB_CM_REJ_INVALID_SERVICE_ID (Linux, include/rdma/ib_cm.h). A thread of rping prints it and may end the program before another one
prints `connect error` (rdma-core 56: librdmacm/examples/rping.c, cma_thread).
"""
QP_TIMEOUT = "18"
"""Time until a sender repeats what was not acknowledged, 4 µs times 2 to this power: 1 s, 67 ms by default (perftest, --qp-timeout).
Eight messages of 64 KiB are queued, which a link of 5 Mbit/s carries in 0.8 s; after 7 repetitions the sender gives up.
"""
MAPPED = "0000:0000:0000:0000:0000:ffff:"
"""Start of the GID of an IPv4 address (RFC 4291, 2.5.5.2)."""


def arguments() -> argparse.Namespace:
    """Return the options. `--seconds` is the time of one bandwidth test."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rails", nargs="+", required=True)
    parser.add_argument("--pairs", type=json.loads, required=True)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--patience", type=int, default=20, help="seconds until the other node responds")
    parser.add_argument("--gid-index", type=int, help="RoCE only")
    parser.add_argument("--count", type=int, help="messages of a bandwidth test of software RDMA")
    parser.add_argument("--pings", type=int, default=5, help="round trips of rping")
    parser.add_argument("--addresses", type=json.loads, help="rail addresses by node")
    return parser.parse_args()


def commands(options: argparse.Namespace, server: str) -> Iterator[Any]:
    """Yield rail, server's command and client's command of every test in order; server and client use the same list."""
    extra = ["-x", str(options.gid_index)] if options.gid_index is not None else []
    for number, rail in enumerate(options.rails):
        ports = [["-p", str(PORT + 2 * number + step)] for step in range(2)]
        bandwidth = ["ib_write_bw", "-d", rail, "-F", "--report_gbits"]
        if options.count:
            by_count = [*bandwidth, "-s", "65536", "-n", str(options.count), "-t", "8", "-u", QP_TIMEOUT, "-x", gid_index(rail), *ports[0]]
            yield rail, by_count, [*by_count, server]
            ping = ["-a", options.addresses[server][number], "-C", str(options.pings), *ports[1]]
            yield rail, ["rping", "-s", *ping], ["rping", "-c", "-v", "-V", *ping]
            continue
        by_time = [*bandwidth, "-q", "4", "-s", str(2**20), "-D", str(options.seconds), *extra, *ports[0]]
        latency = ["ib_write_lat", "-d", rail, "-F", "-s", "2", "-n", "5000", *extra, *ports[1]]
        for command in (by_time, latency):
            yield rail, command, [*command, server]


def gid_index(rail: str, devices: str = DEVICES) -> str:
    """Return the index of the device's GID for RoCE version 2 and IPv4; that of a device with a single address if there is none."""
    folder = os.path.join(devices, rail, "ports", "1")
    try:
        for index in sorted(os.listdir(os.path.join(folder, "gids")), key=int):
            if content(folder, "gids", index).startswith(MAPPED) and content(folder, "gid_attrs", "types", index) == "RoCE v2":
                return index
    except OSError:
        pass
    return "1"


def content(*parts: str) -> str:
    """Return the text of a file of the kernel."""
    with open(os.path.join(*parts), encoding="ascii") as stream:
        return stream.read().strip()


def run(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Return status and output; 127 if the tool is missing, 124 if it timed out."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError:
        return 127, "", f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, "", f"{command[0]} did not end within {seconds} s"
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def meet(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Run the client; retry while the server does not listen yet. After another failure the server has ended as well."""
    limit = time.monotonic() + seconds
    while True:
        status, out, err = run(command, seconds)
        if status in (0, 124, 127) or time.monotonic() > limit or not REFUSED.search(out + err):
            return status, out, err
        time.sleep(0.2)


def main() -> dict[str, Any]:
    """Run as server or client."""
    options = arguments()
    me, seconds = os.environ["NODE_NAME"], options.seconds + options.patience
    own = next((pair for pair in options.pairs if me in pair), None)
    if own is None:
        return {"role": "rests", "one": me, "other": "", "meetings": []}
    server, client = own
    meetings = []
    for rail, serving, asking in commands(options, server):
        status, out, err = run(serving, seconds) if me == server else meet(asking, seconds)
        if me == client or status:
            meetings.append({"rail": rail, "tool": asking[0], "rc": status, "out": out, "err": err})
    return {"role": "server" if me == server else "client", "one": server, "other": client, "meetings": meetings}


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"  # Tools must print a decimal point.
    print(json.dumps(main()))
