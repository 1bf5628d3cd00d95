"""The reason why a lab node does not respond over SSH, as the container engine reports it."""

from __future__ import annotations

from typing import Final

from rackwright.drivers.podman import exit_status, inspect, podman
from rackwright.errors import RackwrightError
from rackwright.inventory import paths

_LINES: Final = 5
"""Last lines of a container's output that are quoted."""
_JOURNAL: Final = ("journalctl", "--unit=ssh.service", "--unit=sshd.service", "--since=-3min", "--output=cat", "--no-pager")
_REFUSALS: Final = ("pam_", "PAM", "fatal: ")
"""Prefixes of PAM's and sshd's lines about a refused session (pam_syslog(3), sshd(8))."""


async def failure_of(stack: str, hostname: str, *, last: bool) -> str | None:
    """Return why a node cannot respond: its container does not exist or has exited. With `last`, also why sshd refused the session.

    Return None where the container runs and no reason is known, and for a node that is powered down.
    """
    if paths.suspended_file(stack, hostname).exists():
        return None
    name = f"{stack}-{hostname}"
    try:
        found = await inspect(name)
        if found is None:
            return f"there is no container {name}"
        if not (found.running or found.paused):
            return f"container {name} exited with status {await exit_status(name)}{await _last_lines(name)}"
        return await _refusal(name) if last and found.running else None
    except RackwrightError:
        return None  # What ssh reported stands.


async def _last_lines(name: str) -> str:
    ended = await podman("logs", "--tail", str(_LINES), name, timeout=20)
    lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    return "; its last lines: " + " | ".join(lines[-_LINES:]) if lines else "; it printed nothing"


async def _refusal(name: str) -> str | None:
    ended = await podman("exec", name, *_JOURNAL, timeout=20)
    return refusal(ended.stdout) if ended.ok else None


def refusal(journal: str) -> str | None:
    """Return the last line with which PAM or sshd refused a session; None where there is none.

    >>> refusal("Accepted publickey for root\\npam_loginuid(sshd:session): set_loginuid failed\\n")
    'sshd refused the session: pam_loginuid(sshd:session): set_loginuid failed'
    """
    lines = [line.strip() for line in journal.splitlines()]
    refusals = [line for line in lines if line.startswith(_REFUSALS) and "session opened" not in line and "session closed" not in line]
    return f"sshd refused the session: {refusals[-1]}" if refusals else None
