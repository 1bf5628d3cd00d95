"""IPMI through a stand-in for ipmitool, which is no evidence of a real BMC (tests/standins/bmc/ipmitool.py).

By hand on 2026-11-28: ipmitool 1.8.19 against OpenIPMI's ipmi_sim 2.0.33 switched an emulated machine on, off by `soft` and off by `off`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from standins.bmc import ipmitool

from rackwright.drivers.bmc.access import BmcError, BmcLogin, BmcUnavailableError, PowerState
from rackwright.drivers.bmc.ipmi import IpmiPower

from .conftest import CANARY


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the stand-in, which is the first one of PATH."""
    folder = tmp_path / "bin"
    ipmitool.install(folder)
    (folder / "password").write_text(CANARY)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("IPMITOOL_PASSWORD", "of-the-environment")
    return folder


def power(address: str = "bmc0", password: str = CANARY) -> IpmiPower:
    return IpmiPower(BmcLogin("worker0", address, 623, "rackwright", password))


def refused(work: Coroutine[Any, Any, Any]) -> BmcError | BmcUnavailableError:
    with pytest.raises((BmcError, BmcUnavailableError)) as raised:
        asyncio.run(work)
    assert isinstance(raised.value, BmcError | BmcUnavailableError)
    assert CANARY not in str(raised.value)
    return raised.value


def test_machine_goes_on_and_off(program: Path) -> None:
    assert asyncio.run(power().state()) is PowerState.OFF
    asyncio.run(power().shut_down())
    asyncio.run(power().power_on())
    assert asyncio.run(power().state()) is PowerState.ON
    asyncio.run(power().shut_down())
    asyncio.run(power().force_off())
    actions = [line.split()[-1] for line in (program / "argv").read_text().splitlines()]
    assert actions == ["status", "status", "on", "status", "status", "soft", "status"], "a machine that is off gets no button"


def test_password_is_in_environment_alone(program: Path) -> None:
    asyncio.run(power().state())
    assert CANARY not in (program / "argv").read_text()
    assert "-I lanplus -H bmc0 -p 623 -U rackwright -E chassis power status" in (program / "argv").read_text()
    assert "IPMITOOL_PASSWORD" not in (program / "environment").read_text().split(), "it would take precedence"


def test_wrong_password_is_refused(program: Path) -> None:
    error = refused(power(password="wrong").state())
    assert isinstance(error, BmcError)
    assert "refuses the login of user rackwright" in str(error)


def test_missing_privilege_is_refused(program: Path) -> None:
    assert "does not permit this to user rackwright" in str(refused(power("unprivileged").power_on()))


def test_starting_bmc_is_unavailable(program: Path) -> None:
    """openbmc/openbmc#1810"""
    error = refused(power("starting").state())
    assert isinstance(error, BmcUnavailableError)
    assert "Unspecified error" in str(error)


def test_silent_bmc_names_the_error(program: Path) -> None:
    """ipmi_sim does not answer a wrong password: it cannot be distinguished from silence."""
    error = refused(power("silent").state())
    assert isinstance(error, BmcUnavailableError)
    assert "does not answer: Error: Unable to establish IPMI v2 / RMCP+ session" in str(error)
    assert "check address, port, user and password" in str(error)


def test_long_password_is_refused(program: Path) -> None:
    assert "longer than IPMI's 20 bytes" in str(refused(power(password="x" * 21).state()))
    assert not (program / "argv").exists()


def test_missing_program_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install ipmitool" in str(refused(power().state()))
