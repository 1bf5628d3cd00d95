"""An `ssh` that is none: a script put first on PATH, for runs that must not find a cluster."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from support.hang import ENDLESS_SECONDS

UNREACHABLE = "echo 'ssh: connect to host 10.77.0.16 port 22: Connection timed out' >&2; exit 255"
SILENT = f"exec sleep {ENDLESS_SECONDS}"
NOISE = "echo 'Welcome to this node'; echo '[1, 2]'; exit 0"
HERE = 'for command; do :; done; exec sh -c "$command"'
"""Runs a node's command on this machine."""
OTHER_KEY = "echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @' >&2; echo 'Host key verification failed.' >&2; exit 255"


def install(folder: Path, script: str) -> str:
    """Install the script as ssh and podman; return the PATH with them in front."""
    for name in ("ssh", "podman"):
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
