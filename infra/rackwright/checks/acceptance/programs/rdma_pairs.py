"""Measure each rail to one other node: ib_write_bw, then ib_write_lat. The arguments name the pairs; one task per node.

Arguments: --rails DEVICE… and --pairs JSON, a list of [server, client]. Prints one line of JSON:
{"role", "one", "other", "meetings": [{"rail", "tool", "rc", "out", "err"}]}; only clients have results, a node without a partner rests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

PORT = 18515
"""perftest's own default; each rail and tool uses the next port."""


def arguments() -> argparse.Namespace:
    """Return the options. `--seconds` is the time of one bandwidth test."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rails", nargs="+", required=True)
    parser.add_argument("--pairs", type=json.loads, required=True)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--gid-index", type=int, help="RoCE only")
    return parser.parse_args()


def commands(options: argparse.Namespace) -> Iterator[Any]:
    """Yield every test in order, with its port; server and client use the same list."""
    extra = ["-x", str(options.gid_index)] if options.gid_index is not None else []
    for number, rail in enumerate(options.rails):
        bandwidth = ["ib_write_bw", "-d", rail, "-F", "--report_gbits", "-q", "4", "-s", str(2**20), "-D", str(options.seconds)]
        latency = ["ib_write_lat", "-d", rail, "-F", "-s", "2", "-n", "5000"]
        for step, command in enumerate((bandwidth, latency)):
            yield rail, [*command, *extra, "-p", str(PORT + 2 * number + step)]


def run(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Return status and output; 127 if the tool is missing, 124 if it timed out."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError:
        return 127, "", f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, "", f"{command[0]} did not end within {seconds} s"
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def meet(command: list[str], server: str, seconds: float) -> tuple[int, str, str]:
    """Run the client; retry while the server does not listen yet."""
    limit = time.monotonic() + seconds
    while True:
        status, out, err = run([*command, server], seconds)
        if status in (0, 124, 127) or time.monotonic() > limit or "onnect" not in out + err:
            return status, out, err
        time.sleep(0.2)


def main() -> dict[str, Any]:
    """Run as server or client."""
    options = arguments()
    me, seconds = os.environ["NODE_NAME"], options.seconds + 20
    own = next((pair for pair in options.pairs if me in pair), None)
    if own is None:
        return {"role": "rests", "one": me, "other": "", "meetings": []}
    server, client = own
    meetings = []
    for rail, command in commands(options):
        status, out, err = run(command, seconds) if me == server else meet(command, server, seconds)
        meetings.append({"rail": rail, "tool": command[0], "rc": status, "out": out, "err": err})
    return {"role": "server" if me == server else "client", "one": server, "other": client, "meetings": meetings if me == client else []}


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"  # Tools must print a decimal point.
    print(json.dumps(main()))
