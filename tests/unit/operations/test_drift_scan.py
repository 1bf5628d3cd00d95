"""The layers of a drift scan run side by side on a quick machine and one after another on a slow one."""

from __future__ import annotations

import asyncio

import pytest

from rackwright.drift.difference import Layer, LayerScan
from rackwright.operations.drift import scan
from rackwright.operations.drift.host_baseline import BaselineStates


@pytest.mark.parametrize(("slowness", "most"), [(1, 4), (scan._SLOW - 1, 4), (scan._SLOW, 1)])
def test_number_of_scans_in_parallel_follows_slowness(monkeypatch: pytest.MonkeyPatch, slowness: int, most: int) -> None:
    monkeypatch.setattr(scan, "slowness", lambda: slowness)
    running, peak = 0, 0

    async def record() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    async def layer(name: Layer) -> LayerScan:
        await record()
        return LayerScan(name, 0.0)

    async def baseline() -> BaselineStates:
        await record()
        return BaselineStates()

    async def run() -> tuple[list[LayerScan], BaselineStates]:
        return await scan._run_scans([layer(name) for name in Layer], baseline())

    found, _ = asyncio.run(run())
    assert peak == most
    assert [scan.layer for scan in found] == list(Layer)
