"""Observations of the machine: files below its root folder and the output of commands. Nothing here changes the machine."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import NamedTuple

from bootstrap.machine import Machine

_PATIENCE = 60.0
"""Timeout in seconds. All commands respond in milliseconds on a fast machine; on a loaded emulated one podman took over 5 s."""


class Output(NamedTuple):
    """Result of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def timed_out(self) -> bool:
        """Return whether the command did not end in time, so that its result is unknown."""
        return self.code == 124

    @property
    def last_line(self) -> str:
        """Return the last line of stderr, else of stdout."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


def read_file(machine: Machine, path: str) -> str | None:
    """Return the file's text; None if it is missing or unreadable."""
    try:
        return (machine.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_number(machine: Machine, path: str) -> int | None:
    """Return the number in a file of /proc/sys; None without one."""
    text = (read_file(machine, path) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def run_command(machine: Machine, command: str, *arguments: str, patience: float = _PATIENCE) -> Output | None:
    """Run a command with the user's environment, in English; None if it is not installed. A command that hangs ends with code 124."""
    path = machine.which(command)
    if path is None:
        return None
    try:
        ended = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            env={**machine.environ, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Output(124, "", f"no answer within {patience:.0f} s")
    except OSError as error:
        return Output(126, "", str(error.strerror))
    return Output(ended.returncode, ended.stdout, ended.stderr)


def open_device(machine: Machine, path: str) -> str:
    """Open a device for reading and writing and close it; return an empty string, or the name of the error (`EACCES`)."""
    try:
        os.close(os.open(machine.root / path.lstrip("/"), os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return ""
