"""Processes that a copy of the project started, and their output."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from support.project import Project

_REMAINING: Final = frozenset({"conmon", "aardvark-dns", "ssh", "ssh:"})
"""Programs of containers that keep running, and persistent SSH connections with their jump host, which exit on their own."""


def list_processes(project: Project) -> list[str]:
    """Return the command lines of the engine, the provider and their descendants: their environment names the copy's state directory."""
    marker = f"RACKWRIGHT_HOME={project.home}".encode()
    commands = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if marker in environment and Path(command.split(b"\0")[0].split(b" ")[0].decode()).name not in _REMAINING:
            commands.append(command.replace(b"\0", b" ").decode()[:120])
    return commands


def read_until(child: subprocess.Popen[str], text: str) -> None:
    """Read the output of a running command until a line holds the text."""
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"the command ended, and no line of it held `{text}`:\n" + "".join(lines))
