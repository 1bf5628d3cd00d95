"""`rackwright power` against an emulated BMC whose machine is a QEMU process: power, button and power cut are QEMU's own.

Simulated: the BMC (tests/standins/bmc). Real: Redfish over TLS, sushy, QMP, the ACPI power button, the end of the process.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.bmc.profiles import OPENBMC
from standins.bmc.qemu_machine import MachineInQemu
from standins.bmc.service import EmulatedBmc, serving
from support.bmc_stack import write_stack

from rackwright.drivers.bmc.access import PowerState
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.operations.power import control
from rackwright.operations.power.control import Action, PowerReport, control_power

PASSWORD = "canary-of-a-bmc"


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MachineInQemu]]:
    """Two machines behind BMCs in a stack that is not up: the second one ignores its power button."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    label = f"rackwright-bmc-{uuid.uuid4().hex[:8]}"
    found = [MachineInQemu(tmp_path / f"machine{place}", f"{label}-{place}", shuts_down=place == 0) for place in range(2)]
    first, second = (EmulatedBmc(OPENBMC, machine, PASSWORD) for machine in found)
    try:
        with serving(first, tmp_path / "bmc0"), serving(second, tmp_path / "bmc1"):
            write_stack(tmp_path / "stacks", [first, second], PASSWORD)
            monkeypatch.setattr(paths, "stacks", lambda: tmp_path / "stacks")
            monkeypatch.setattr(control, "_POLL", 0.5)
            yield found
    finally:
        for machine in found:
            machine.end()


async def ignore(_: str) -> None:
    """Show nothing."""


def states(report: PowerReport) -> list[PowerState]:
    assert [one.problem for one in report.machines] == [""] * len(report.machines)
    return [one.state for one in report.machines]


def test_machine_goes_through_its_states(machines: list[MachineInQemu], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = machines
    assert states(control_power("rack", Action.STATUS, [], ignore)) == [PowerState.OFF, PowerState.OFF]
    assert states(control_power("rack", Action.ON, ["worker[0-1]"], ignore)) == [PowerState.ON, PowerState.ON]
    assert first.process is not None and second.process is not None
    started = first.process.pid
    assert Path(f"/proc/{started}").exists() and started != os.getpid()
    with pytest.raises(UndeterminedError, match="whether jobs run on worker0 is unknown"):
        control_power("rack", Action.OFF, ["worker0"], ignore)
    assert first.is_on()
    first.wait_until_ready()
    assert states(control_power("rack", Action.CYCLE, ["worker0"], ignore, force=True)) == [PowerState.ON]
    assert first.resets == ["On", "GracefulShutdown", "On"]
    assert first.process.pid != started, "another process runs"
    first.wait_until_ready()
    assert states(control_power("rack", Action.OFF, ["worker0"], ignore, force=True)) == [PowerState.OFF]
    assert "ForceOff" not in first.resets


def test_deaf_machine_loses_its_power(machines: list[MachineInQemu], monkeypatch: pytest.MonkeyPatch) -> None:
    second = machines[1]
    monkeypatch.setattr(control, "SHUTDOWN", 3.0)
    assert states(control_power("rack", Action.ON, ["worker1"], ignore)) == [PowerState.ON]
    report = control_power("rack", Action.OFF, ["worker1"], ignore, force=True)
    assert states(report) == [PowerState.OFF]
    assert second.resets == ["On", "GracefulShutdown", "ForceOff"]
    assert any("cutting its power (--force)" in remark for remark in report.machines[0].remarks)
    assert not second.is_on()
