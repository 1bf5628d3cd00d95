"""The lock of a stack, for a command that only reads."""

from __future__ import annotations

import asyncio

import pytest

from rackwright.errors import UndeterminedError
from rackwright.operations import stack_lock
from rackwright.operations.stack_lock import StackLock, locked


def test_locked_stack_is_undetermined_for_a_reader(lab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_lock, "_PATIENCE", 0.0)

    async def read() -> None:
        await StackLock(lab).hold()
        with pytest.raises(UndeterminedError, match="another run is changing it"):
            async with locked(lab):
                raise AssertionError("the lock was given twice")

    asyncio.run(read())


def test_lock_is_released_after_an_error(lab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_lock, "_PATIENCE", 0.0)

    async def read() -> None:
        with pytest.raises(ValueError, match="inside"):
            async with locked(lab):
                raise ValueError("inside")
        await StackLock(lab).hold()

    asyncio.run(read())
