"""The layers of a drift scan run side by side on a quick machine and one after another on a slow one."""

from __future__ import annotations

import asyncio

import pytest

from rackwright.drift.difference import Layer, LayerScan
from rackwright.operations.drift import scan
from rackwright.operations.drift.host_baseline import BaselineStates


@pytest.mark.parametrize(
    ("target", "slowness", "expected"),
    [("lab", 1, False), ("lab", scan._SLOW - 1, False), ("lab", scan._SLOW, True), ("hosts", 1, False), ("vm", 1, True)],
)
def test_scans_of_slow_nodes_disturb_each_other(monkeypatch: pytest.MonkeyPatch, target: str, slowness: int, expected: bool) -> None:
    monkeypatch.setattr(scan, "slowness", lambda: slowness)
    assert scan._disturb_each_other(target) is expected


@pytest.mark.parametrize(("one_by_one", "most"), [(False, 4), (True, 1)])
def test_scans_run_in_parallel_or_one_by_one(one_by_one: bool, most: int) -> None:
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
        return await scan._run_scans([layer(name) for name in Layer], baseline(), one_by_one=one_by_one)

    found, _ = asyncio.run(run())
    assert peak == most
    assert [scan.layer for scan in found] == list(Layer)
