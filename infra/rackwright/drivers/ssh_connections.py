"""SSH connections of a stack: open master connections, report why one cannot be opened, close a stale one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rackwright.drivers.process import CompletedProcess, ProcessTimeoutError, run
from rackwright.inventory import paths
from rackwright.time_limits import slowness

_PAUSE: Final = 0.15
"""Seconds between attempts while a node boots."""
_PATIENT: Final = ("-o", "ServerAliveCountMax=15")
"""A master connection of a converge survives 30 s without a response: a node that is busy starting daemons is not down. Read-only callers
have a time-out of their own and close a master that does not respond."""
_AT_ONCE: Final = 64
"""Number of attempts in parallel. Each is a process, or two behind a login node. Chosen, not measured."""
_BETWEEN_CAUSES: Final = 1.0
"""Seconds between queries for the cause: each is a process."""
Cause = Callable[[str, bool], Awaitable[str | None]]
"""Function that returns why a node cannot respond, by its name. On the last call (True), it also returns why the node refuses the login."""
_ATTEMPT: Final = 12.0
"""Seconds one attempt may take: connect time-outs of two hops (3 s each) and the detection of a stale master (2 x 2 s)."""


@dataclass(frozen=True)
class _Waiting:
    """Time-outs for a node and for one attempt, in seconds of a machine as slow as this one, and the source of causes."""

    within: float
    attempt: float
    cause: Cause | None


async def connect_all(stack: str, names: Iterable[str], *, within: float, cause: Cause | None = None) -> dict[str, str]:
    """Connect to every node; return the reason for each without a response within the time (seconds, longer on a slow machine).

    Stop waiting for a node as soon as `cause` returns why it cannot respond.
    Connect to jump hosts first: without their master connection, every node would open a connection of its own, and sshd drops most.
    """
    wanted = list(names)
    factor = await asyncio.to_thread(slowness)
    within *= factor
    through = _through(stack)
    doors = {through[name] for name in wanted if name in through}
    waiting = _Waiting(within, _ATTEMPT * factor, cause)
    shut = await _reach_all(stack, doors, waiting)
    behind_shut = {name: through[name] for name in wanted if through.get(name) in shut}
    lost = await _reach_all(stack, [name for name in wanted if name not in doors and name not in behind_shut], waiting)
    unreachable = {name: f"is reached through {door}, which does not respond: {shut[door]}" for name, door in behind_shut.items()}
    found = {**shut, **unreachable, **lost}
    return {name: found[name] for name in wanted if name in found}


async def _reach_all(stack: str, names: Iterable[str], waiting: _Waiting) -> dict[str, str]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> str | None:
        async with slots:
            return await _reach_one(stack, name, waiting)

    wanted = list(names)
    found = await asyncio.gather(*map(one, wanted))
    return {name: reason for name, reason in zip(wanted, found, strict=True) if reason is not None}


def _through(stack: str) -> dict[str, str]:
    """Return node -> jump host, from the stack's SSH configuration."""
    file = paths.ssh_config(stack)
    through, host = {}, ""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        key, _, value = line.strip().partition(" ")
        host = value if key == "Host" else host
        if key == "ProxyJump":
            through[host] = value
    return through


async def run_ssh(
    stack: str, name: str, *command: str, timeout: float, stdin: bytes | None = None, options: Sequence[str] = ()
) -> CompletedProcess:
    """Run a command on a node over its master connection; raise ProcessTimeoutError after the time-out in seconds."""
    return await _ssh("-F", str(paths.ssh_config(stack)), *options, name, *command, timeout=timeout, stdin=stdin)


async def _ssh(*words: str, timeout: float, stdin: bytes | None = None) -> CompletedProcess:
    return await run(["ssh", *words], timeout=timeout, stdin=stdin)


async def close(stack: str, name: str) -> None:
    """Close the node's master connection, so that the next one is new; a stale one hangs for 20 s and more."""
    socket = paths.socket_folder(stack) / name
    if not socket.exists():
        return
    with contextlib.suppress(Exception):
        await _ssh("-F", "none", "-o", f"ControlPath={socket}", "-O", "exit", name, timeout=3)
    with contextlib.suppress(FileNotFoundError):
        socket.unlink()


async def _reach_one(stack: str, name: str, waiting: _Waiting) -> str | None:
    loop, cause = asyncio.get_running_loop(), waiting.cause
    deadline = loop.time() + waiting.within
    queried_at = loop.time()
    while True:
        reason = await _attempt(stack, name, min(waiting.attempt, max(1.0, deadline - loop.time())))
        if reason is None:
            return None
        if "host key" in reason:
            return reason
        last = loop.time() + _PAUSE >= deadline
        if cause is not None and (last or loop.time() >= queried_at + _BETWEEN_CAUSES):
            queried_at = loop.time()
            if (found := await cause(name, last)) is not None:
                return found
        if last:
            return f"{reason}; tried for {waiting.within:.0f} s"
        await asyncio.sleep(_PAUSE)


async def _attempt(stack: str, name: str, patience: float) -> str | None:
    """Open a connection; return why there is none. Close one whose session was refused, since it would refuse every later session."""
    try:
        ended = await run_ssh(stack, name, "true", timeout=patience, options=_PATIENT)
    except ProcessTimeoutError:
        await close(stack, name)
        return "no response over SSH"
    if ended.ok:
        return None
    await close(stack, name)
    return _reason(ended)


def _reason(ended: CompletedProcess) -> str:
    """Return ssh's message, shortened to the decisive line."""
    error = ended.stderr.strip()
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in error or "Host key verification failed" in error:
        return "its host key is not the pinned one: another machine responds, or the connection is intercepted"
    return error.splitlines()[-1] if error else f"ssh ended with status {ended.status}"
