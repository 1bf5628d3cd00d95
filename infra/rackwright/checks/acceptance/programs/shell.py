"""Run a shell command inside a job and print how it ended: {"rc", "out", "err"}."""

from __future__ import annotations

import json
import os
import subprocess
import sys

LIMIT = 30
"""Seconds; a tool that hangs must not hold the job."""


def main(command: str) -> None:
    """Run the command; if it times out its status is 124, as timeout(1) has it."""
    try:
        ended = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
        status, out, err = ended.returncode, ended.stdout, ended.stderr
    except subprocess.TimeoutExpired:
        status, out, err = 124, b"", b"no end after %d s" % LIMIT
    print(json.dumps({"rc": status, "out": out.decode(errors="replace"), "err": err.decode(errors="replace")}))


os.environ["LC_ALL"] = "C.UTF-8"  # Tools must print a decimal point.
main(sys.argv[1])
