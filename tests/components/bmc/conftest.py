"""Emulated BMCs, and logins at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from standins.bmc.machine import Machine, MachineInMemory
from standins.bmc.profiles import OPENBMC, Profile
from standins.bmc.service import EmulatedBmc, serving

from rackwright.drivers.bmc.access import BmcLogin

CANARY = "canary-7f3a9c-pass"
"""The password of every emulated BMC: 18 bytes, within IPMI's limit."""
Start = Callable[..., EmulatedBmc]


@pytest.fixture(autouse=True)
def usual_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not measure this machine: limits are those of a machine of usual speed."""
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts an emulated BMC."""
    with ExitStack() as running:
        count = 0

        def start(profile: Profile = OPENBMC, machine: Machine | None = None, **more: Any) -> EmulatedBmc:
            nonlocal count
            count += 1
            bmc = EmulatedBmc(profile, machine or MachineInMemory(), CANARY, **more)
            return running.enter_context(serving(bmc, tmp_path / f"bmc{count}"))

        yield start


def login_at(bmc: EmulatedBmc, **more: Any) -> BmcLogin:
    """Return the login of an emulated BMC, with its certificate pinned."""
    given = {"username": bmc.username, "password": CANARY, "certificate": bmc.fingerprint, **more}
    return BmcLogin("worker0", "127.0.0.1", bmc.port, **given)
