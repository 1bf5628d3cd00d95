"""A cancelled run ends what may be ended, lets the rest finish what it writes, and starts nothing but what cleans up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rackwright.errors import RackwrightError
from rackwright.provider.drivers import process
from rackwright.provider.drivers.process import Ended, Interruption
from rackwright.provider.lifetime import Lifetime


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Lifetime:
    """A life of the test's own."""
    made = Lifetime()
    monkeypatch.setattr(process, "current", made)
    return made


async def _cancelled_while_it_writes(life: Lifetime, file: Path, interruption: Interruption) -> Ended:
    writes = process.run(["sh", "-c", f"echo half > {file}; sleep 0.4; echo whole > {file}"], interruption=interruption)
    running = asyncio.create_task(writes)
    while not file.exists():
        await asyncio.sleep(0.01)
    await life.cancel()
    return await running


@pytest.mark.parametrize(("interruption", "left"), [(Interruption.ENDS_IT, "half"), (Interruption.WAITS, "whole")])
def test_what_may_not_be_interrupted_finishes_before_the_run_is_over(
    life: Lifetime, tmp_path: Path, interruption: Interruption, left: str
) -> None:
    file = tmp_path / "written"
    asyncio.run(_cancelled_while_it_writes(life, file, interruption))
    assert file.read_text().strip() == left


def test_a_server_that_stops_lets_it_finish_as_well(life: Lifetime, tmp_path: Path) -> None:
    """Here the call itself is cancelled, with its input not read yet."""
    file = tmp_path / "written"

    async def scene() -> None:
        command = ["sh", "-c", f"touch {file}; sleep 0.3; cat > {file}"]
        running = asyncio.create_task(process.run(command, stdin=b"whole", interruption=Interruption.WAITS))
        while not file.exists():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
    assert file.read_text() == "whole"


def test_a_call_that_is_cancelled_while_its_command_starts_lets_it_finish_as_well(
    life: Lifetime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the command runs before whoever started it hears of it."""
    file, start = tmp_path / "written", asyncio.create_subprocess_exec

    async def slowly(*argv: str, **options: Any) -> asyncio.subprocess.Process:
        child = await start(*argv, **options)
        await asyncio.sleep(0.3)
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)

    async def scene() -> None:
        running = asyncio.create_task(
            process.run(["sh", "-c", f"touch {file}; cat > {file}"], stdin=b"whole", interruption=Interruption.WAITS)
        )
        while not file.exists():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
    assert file.read_text() == "whole"


@pytest.mark.parametrize("interruption", [Interruption.ENDS_IT, Interruption.WAITS])
def test_a_cancelled_run_starts_nothing_more(life: Lifetime, interruption: Interruption) -> None:
    life.cancelled = True
    with pytest.raises(RackwrightError, match="interrupted before it was finished"):
        asyncio.run(process.run(["true"], interruption=interruption))


def test_a_cancelled_run_still_cleans_up(life: Lifetime) -> None:
    life.cancelled = True
    assert asyncio.run(process.run(["true"], interruption=Interruption.IGNORED)).ok


def test_one_that_never_ends_is_killed_at_its_time_limit(life: Lifetime) -> None:
    with pytest.raises(process.NoEnd):
        asyncio.run(process.run(["sleep", "60"], timeout=0.2, interruption=Interruption.WAITS))
