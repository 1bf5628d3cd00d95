"""A killed virtual machine is the one that target vm created."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rackwright.drivers import node_kill, ssh_connections
from rackwright.drivers.vm import machine
from rackwright.provider.vm import node


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """Return the list of folders whose machine is stopped or started, without a machine."""

    async def close(stack: str, name: str) -> None:
        pass

    found: list[tuple[str, str]] = []
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "stop", lambda folder: found.append(("stop", str(folder))))
    monkeypatch.setattr(machine, "start", lambda folder: found.append(("start", str(folder))))
    monkeypatch.setattr(ssh_connections, "close", close)
    return found


def test_kill_and_start_act_on_the_created_machine(acts: list[tuple[str, str]]) -> None:
    created = str(node._folder({"stack": "lab-vm", "name": "worker1"}))
    asyncio.run(node_kill.kill("lab-vm", "vm", "worker1"))
    asyncio.run(node_kill.start("lab-vm", "vm", "worker1"))
    assert acts == [("stop", created), ("start", created)]
