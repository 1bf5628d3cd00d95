"""Child processes that can be stopped: each leads its own process group, and long ones end with this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rackwright import layout
from rackwright.drivers.supervision import INTERRUPTED, current
from rackwright.errors import RackwrightError

_LONGEST_LINE = 64 * 1024 * 1024
"""Maximum bytes of a line of output; a longer one raises. Chosen: an event of Ansible is one line, with whole files in a diff."""
_AFTERMATH = 2.0
"""Seconds to wait for the rest of the output of a command that has exited."""
_GUARD = Path(__file__).with_name("process_guard.py")


class ProcessTimeoutError(RackwrightError):
    """A command exceeded its time limit and was killed."""


@dataclass(frozen=True)
class CompletedProcess:
    """A child that has exited: status and output."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Return whether it exited with status 0."""
        return self.status == 0


class OnCancel(Enum):
    """Treatment of a short command when the run is cancelled."""

    TERMINATE = "it receives SIGTERM, then SIGKILL; no further process starts"
    FINISH = "finishes its writes; no further process starts"
    IGNORE = "it finishes, and is started even then: it cleans up"


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    interruption: OnCancel = OnCancel.TERMINATE,
) -> CompletedProcess:
    """Run a short command until it exits, in the folder `cwd`. Kill it and raise ProcessTimeoutError after `timeout` seconds.

    A cancelled call raises CancelledError. A command that must finish has finished by then, even if it was just starting.
    """
    running = asyncio.ensure_future(_run(argv, stdin=stdin, timeout=timeout, env=env, cwd=cwd, interruption=interruption))
    try:
        return await (running if interruption is OnCancel.TERMINATE else asyncio.shield(running))
    except asyncio.CancelledError:
        await asyncio.wait((running,))
        if not running.cancelled():
            running.exception()  # the cancelled caller discards the result
        raise


async def _run(
    argv: Sequence[str], *, stdin: bytes | None, timeout: float, env: Mapping[str, str] | None, cwd: Path | None, interruption: OnCancel
) -> CompletedProcess:
    async with _child(argv, stdin=stdin is not None, env=env, cwd=cwd, interruption=interruption) as child:
        try:
            out, err = await asyncio.wait_for(child.communicate(stdin), timeout)
        except TimeoutError:
            _kill(child)
            raise ProcessTimeoutError(f"{argv[0]} {argv[1] if len(argv) > 1 else ''}: no end after {timeout:.0f} s") from None
    return CompletedProcess(tuple(argv), child.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


async def stream(
    argv: Sequence[str],
    on_line: Callable[[str], Awaitable[None]],
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 3600.0,
) -> CompletedProcess:
    """Run a long command and pass its output on line by line. The command and all its descendants end with this process."""
    lifeline, held = os.pipe()
    try:
        guarded = [sys.executable, "-I", "-S", str(_GUARD), str(lifeline), *argv]
        async with _child(guarded, stdin=stdin is not None, env=env, pass_fds=(lifeline,)) as child:
            os.close(lifeline)
            lifeline = -1
            try:
                err = await asyncio.wait_for(_pump(child, on_line, stdin), timeout)
            except TimeoutError:
                raise ProcessTimeoutError(f"{argv[0]}: no end after {timeout:.0f} s") from None
    finally:
        for descriptor in (lifeline, held):
            if descriptor >= 0:
                os.close(descriptor)
    return CompletedProcess(tuple(argv), child.returncode or 0, "", err.decode(errors="replace"))


async def _pump(child: asyncio.subprocess.Process, on_line: Callable[[str], Awaitable[None]], stdin: bytes | None) -> bytes:
    assert child.stdout is not None and child.stderr is not None
    if stdin is not None and child.stdin is not None:
        child.stdin.write(stdin)
        child.stdin.close()
    lines, errors = asyncio.create_task(_read_lines(child.stdout, on_line)), asyncio.create_task(child.stderr.read())
    await child.wait()
    # A background ssh master may hold the pipes open after the command has exited.
    await asyncio.wait((lines, errors), timeout=_AFTERMATH)
    for reader in (lines, errors):
        reader.cancel()
    return errors.result() if errors.done() and not errors.cancelled() else b""


async def _read_lines(stream: asyncio.StreamReader, on_line: Callable[[str], Awaitable[None]]) -> None:
    async for line in stream:
        await on_line(line.decode(errors="replace").rstrip("\n"))


@contextlib.asynccontextmanager
async def _child(
    argv: Sequence[str],
    *,
    stdin: bool,
    env: Mapping[str, str] | None,
    cwd: Path | None = None,
    pass_fds: tuple[int, ...] = (),
    interruption: OnCancel = OnCancel.TERMINATE,
) -> AsyncIterator[asyncio.subprocess.Process]:
    if current.cancelled and interruption is not OnCancel.IGNORE:
        raise RackwrightError(INTERRUPTED)
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            stdin=pipe if stdin else null,
            stdout=pipe,
            stderr=pipe,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
            limit=_LONGEST_LINE,
        )
    except FileNotFoundError:
        raise RackwrightError(
            f"{argv[0]} is not installed", hint=f"`{layout.doctor_command()}` names what is missing and the command that installs it"
        ) from None
    whole = interruption is not OnCancel.TERMINATE
    current.adopt(child.pid, whole=whole)
    try:
        yield child
    finally:
        if child.returncode is None:
            if not whole:
                _kill(child)
            elif child.stdin is not None:
                child.stdin.close()
            await child.wait()
        current.release(child.pid)


def _kill(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
