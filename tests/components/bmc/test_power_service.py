"""The service that switches machines for Slurm's power saving, against emulated BMCs whose machines are flags."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standins.bmc.machine import MachineInMemory
from standins.bmc.profiles import IDRAC, OPENBMC
from standins.bmc.service import EmulatedBmc
from support.hang import HANG_SECONDS

from rackwright.drivers.bmc import power_service
from rackwright.drivers.bmc.archive import power_archive, write_power_archive
from rackwright.drivers.bmc.power_service import PowerRequest, PowerService, delete_request, read_requests

from .conftest import CANARY

Start = Callable[..., EmulatedBmc]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of requests, without one."""
    for action in ("suspend", "resume"):
        (tmp_path / "requests" / action).mkdir(parents=True)
    return tmp_path / "requests"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests at once: no real machine is waited for."""
    monkeypatch.setattr(power_service, "_REPEAT", 0.0)


def request(folder: Path, action: str, node: str = "worker0", at: int | None = None) -> Path:
    """Write a request as slurm-suspend and slurm-resume do."""
    file = folder / action / node
    file.write_text("2026-11-30T10:00:00Z\n")
    if at is not None:
        os.utime(file, ns=(at, at))
    return file


def settings_of(bmc: EmulatedBmc, **more: Any) -> dict[str, Any]:
    """Return the entry of a node in the service's settings."""
    given = {"kind": "redfish", "address": "127.0.0.1", "port": bmc.port, "username": bmc.username, "password": CANARY}
    return {**given, "system": None, "certificate": bmc.fingerprint, "ca_file": None, **more}


def execute(folder: Path, *, shutdown_s: float = 5.0, rounds: int = 1, **nodes: dict[str, Any]) -> None:
    """Execute the requests that are there, in so many rounds."""

    async def run() -> None:
        service = PowerService(folder, nodes, shutdown_s, 600.0, poll=0.01)
        for _ in range(rounds):
            await asyncio.gather(*service.start_requests())

    asyncio.run(run())


@pytest.mark.parametrize("profile", [OPENBMC, IDRAC], ids=["openbmc", "idrac"])
def test_suspended_machine_is_shut_down_and_resumed_one_powered_on(profile: Any, start: Start, folder: Path) -> None:
    machine = MachineInMemory(on=True)
    bmc = start(profile, machine)
    file = request(folder, "suspend")
    execute(folder, worker0=settings_of(bmc))
    assert (machine.on, machine.resets, file.exists(), bmc.sessions) == (False, ["GracefulShutdown"], False, {})
    request(folder, "resume")
    execute(folder, worker0=settings_of(bmc))
    assert (machine.on, machine.resets, bmc.sessions) == (True, ["GracefulShutdown", "On"], {})


def test_machine_that_does_not_shut_down_loses_its_power(start: Start, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = MachineInMemory(on=True, shuts_down=False)
    file = request(folder, "suspend")
    execute(folder, shutdown_s=1.0, worker0=settings_of(start(machine=machine)))
    assert (machine.resets, machine.on, file.exists()) == (["GracefulShutdown", "ForceOff"], False, False)
    assert "worker0: not shut down after 1 s; cutting the power" in capsys.readouterr().out


def test_resumed_machine_that_runs_boots_again(start: Start, folder: Path) -> None:
    """Slurm waits for a boot after its request."""
    machine = MachineInMemory(on=True)
    request(folder, "resume")
    execute(folder, worker0=settings_of(start(machine=machine)))
    assert (machine.resets, machine.on) == (["GracefulShutdown", "On"], True)


def test_dropped_request_to_power_on_is_repeated(start: Start, folder: Path) -> None:
    machine = MachineInMemory(drops=2)
    request(folder, "resume")
    execute(folder, worker0=settings_of(start(machine=machine)))
    assert (machine.resets, machine.on) == (["On"] * 3, True)


def test_newer_request_replaces_one_that_is_executed(start: Start, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = MachineInMemory(on=True, shuts_down=False)
    bmc = start(machine=machine)
    request(folder, "suspend")

    async def run() -> None:
        service = PowerService(folder, {"worker0": settings_of(bmc)}, HANG_SECONDS, 600.0, poll=0.01)
        tasks = service.start_requests()
        while not machine.resets:
            await asyncio.sleep(0.01)
        (folder / "suspend/worker0").unlink()
        request(folder, "resume")
        assert service.start_requests() == tasks, "one request of a node at a time"
        await asyncio.gather(*tasks)

    asyncio.run(run())
    assert machine.on and machine.resets == ["GracefulShutdown"] and (folder / "resume/worker0").exists()
    assert "suspend worker0: replaced by a newer request" in capsys.readouterr().out


def test_refused_login_is_not_repeated_at_once(start: Start, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bmc = start(echoes_password=True)
    file = request(folder, "resume")
    execute(folder, rounds=3, worker0=settings_of(bmc, password="wrong-canary"))
    assert (bmc.logins, file.exists()) == (1, True), "BMCs lock users out"
    said = capsys.readouterr().out
    assert "refuses the login" in said and "next attempt in 300 s" in said and "wrong-canary" not in said


def test_bmc_that_does_not_respond_does_not_hold_up_others(start: Start, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = MachineInMemory()
    lost = request(folder, "resume", "worker0")
    request(folder, "resume", "worker1")
    execute(folder, worker0={**settings_of(start()), "port": 9}, worker1=settings_of(start(machine=machine)))
    assert (machine.on, lost.exists()) == (True, True)
    assert "worker0: the BMC at 127.0.0.1:9 cannot be reached" in capsys.readouterr().out


def test_machine_that_stays_off_is_tried_again_later(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power_service, "POWER_CHANGE", 0.0)
    machine = MachineInMemory(drops=9)
    file = request(folder, "resume")
    execute(folder, worker0=settings_of(start(machine=machine)))
    assert (machine.on, file.exists()) == (False, True)
    assert "resume worker0: the BMC does not report `on` after 0 s; next attempt in 10 s" in capsys.readouterr().out


def test_time_between_attempts_grows(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    request(folder, "resume")
    nodes = {"worker0": {"kind": "redfish", "address": "127.0.0.1", "port": 9, "username": "u", "password": "p", "certificate": "AA" * 32}}

    async def run() -> None:
        service = PowerService(folder, nodes, 5.0, 600.0, poll=0.01)
        for _ in range(7):
            await asyncio.gather(*service.start_requests())
            service._not_before.clear()

    asyncio.run(run())
    said = capsys.readouterr().out.splitlines()
    assert [line.rpartition("next attempt in ")[2] for line in said] == ["10 s", "20 s", "40 s", "80 s", "160 s", "300 s", "300 s"]


@pytest.mark.parametrize("action", ["suspend", "resume"])
def test_request_for_which_slurm_waits_no_longer_is_dropped(
    start: Start, folder: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    """A controller that was down would power off a node with jobs."""
    machine = MachineInMemory(on=True)
    file = request(folder, action, at=time.time_ns() - 3600 * 10**9)
    execute(folder, worker0=settings_of(start(machine=machine)))
    assert (machine.resets, machine.on, file.exists()) == ([], True, False)
    assert f"{action} worker0: older than " in capsys.readouterr().out


def test_links_and_other_names_are_no_requests(folder: Path) -> None:
    request(folder, "suspend", "worker9")
    (folder / "suspend/worker0").symlink_to("/etc/passwd")
    assert read_requests(folder, {"worker0": None}) == {}


def test_latest_request_counts_and_a_newer_one_is_kept(folder: Path) -> None:
    request(folder, "suspend", at=1)
    file = request(folder, "resume", at=2)
    found = read_requests(folder, {"worker0": None})
    assert found == {"worker0": PowerRequest("resume", "worker0", 2)}
    request(folder, "resume", at=3)
    delete_request(folder, found["worker0"])
    assert file.exists()
    delete_request(folder, PowerRequest("resume", "worker0", 3))
    assert not file.exists()


def test_archive_runs_without_packages(start: Start, folder: Path, tmp_path: Path) -> None:
    machine = MachineInMemory(on=True)
    settings = tmp_path / "settings.json"
    settings.write_text(
        json.dumps({"nodes": {"worker0": settings_of(start(machine=machine))}, "suspend_timeout_s": 60, "resume_timeout_s": 60})
    )
    file, until = request(folder, "suspend"), time.monotonic() + HANG_SECONDS
    command = [sys.executable, "-I", "-S", str(write_power_archive(tmp_path)), str(settings), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/") as service:
        try:
            while file.exists() and service.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            service.terminate()
        assert service.stdout is not None
        said = service.stdout.read()
    assert (machine.on, file.exists()) == (False, False), said
    assert "suspend worker0: done" in said


def test_archive_is_the_same_each_time_and_has_no_compiled_module() -> None:
    first = power_archive()
    power_archive.cache_clear()
    assert power_archive() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = archive.namelist()
    assert {"__main__.py", "sushy/main.py", "rackwright/drivers/bmc/power_service.py"} <= set(names)
    assert [name for name in names if not name.endswith((".py", ".json", ".pem", "/METADATA", "/entry_points.txt"))] == []
