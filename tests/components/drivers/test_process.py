"""A cancelled run ends interruptible commands, lets the others finish, and starts only cleanup commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hang import ENDLESS_SECONDS

from rackwright.drivers import process
from rackwright.drivers.process import CompletedProcess, OnCancel
from rackwright.drivers.supervision import Lifetime
from rackwright.errors import RackwrightError


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Lifetime:
    """Return a lifetime of the test's own."""
    made = Lifetime()
    monkeypatch.setattr(process, "current", made)
    return made


async def _until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def _when(file: Path, then: str) -> str:
    """Return a command that waits until a file exists."""
    return f"until [ -e {file} ]; do sleep 0.02; done; {then}"


async def _cancelled_while_it_writes(life: Lifetime, file: Path, interruption: OnCancel) -> CompletedProcess:
    cancelled = file.with_name("cancelled")
    script = f"echo half > {file}; touch {file}.begun; {_when(cancelled, f'echo whole > {file}')}"
    running = asyncio.create_task(process.run(["sh", "-c", script], interruption=interruption))
    await _until(file.with_name(f"{file.name}.begun").exists)
    cancelling = asyncio.create_task(life.cancel())
    await _until(lambda: life.cancelled)
    if interruption is OnCancel.FINISH:
        cancelled.touch()
    await cancelling
    return await running


@pytest.mark.parametrize(("interruption", "left"), [(OnCancel.TERMINATE, "half"), (OnCancel.FINISH, "whole")])
def test_uninterruptible_command_finishes_before_run_ends(life: Lifetime, tmp_path: Path, interruption: OnCancel, left: str) -> None:
    file = tmp_path / "written"
    asyncio.run(_cancelled_while_it_writes(life, file, interruption))
    assert file.read_text().strip() == left


def test_stopping_server_waits_for_command(life: Lifetime, tmp_path: Path) -> None:
    """Here the call itself is cancelled before its input is read."""
    file = tmp_path / "written"

    async def scene() -> None:
        cancelled = tmp_path / "cancelled"
        command = ["sh", "-c", f"touch {file}; {_when(cancelled, f'cat > {file}')}"]
        running = asyncio.create_task(process.run(command, stdin=b"whole", interruption=OnCancel.FINISH))
        await _until(file.exists)
        running.cancel()
        await asyncio.sleep(0)
        cancelled.touch()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
    assert file.read_text() == "whole"


def test_call_cancelled_at_start_waits_for_command(life: Lifetime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the command runs before its caller resumes."""
    file, start, cancelled = tmp_path / "written", asyncio.create_subprocess_exec, asyncio.Event()

    async def slowly(*argv: str, **options: Any) -> asyncio.subprocess.Process:
        child = await start(*argv, **options)
        await cancelled.wait()
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)

    async def scene() -> None:
        running = asyncio.create_task(
            process.run(["sh", "-c", f"touch {file}; cat > {file}"], stdin=b"whole", interruption=OnCancel.FINISH)
        )
        await _until(file.exists)
        running.cancel()
        asyncio.get_running_loop().call_later(0.05, cancelled.set)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
    assert file.read_text() == "whole"


@pytest.mark.parametrize("interruption", [OnCancel.TERMINATE, OnCancel.FINISH])
def test_cancelled_run_starts_no_command(life: Lifetime, interruption: OnCancel) -> None:
    life.cancelled = True
    with pytest.raises(RackwrightError, match="interrupted before it was finished"):
        asyncio.run(process.run(["true"], interruption=interruption))


def test_cancelled_run_runs_cleanup(life: Lifetime) -> None:
    life.cancelled = True
    assert asyncio.run(process.run(["true"], interruption=OnCancel.IGNORE)).ok


def test_endless_command_is_killed_at_time_limit(life: Lifetime) -> None:
    with pytest.raises(process.ProcessTimeoutError):
        asyncio.run(process.run(["sleep", str(ENDLESS_SECONDS)], timeout=0.2, interruption=OnCancel.FINISH))
