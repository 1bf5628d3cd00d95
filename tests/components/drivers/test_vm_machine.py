"""Life of a virtual machine with a stand-in for QEMU: started, found by its folder, brought back, removed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from standins import qemu
from support.killing import kill

from rackwright.drivers.vm import machine
from rackwright.drivers.vm.credentials import Identity
from rackwright.drivers.vm.machine_spec import MachineSpec
from rackwright.errors import RackwrightError
from rackwright.processes import start_time

IDENTITY = Identity(hostname="n", host_key="SECRET-HOST-KEY", host_public_key="ssh-ed25519 A", authorized_key="ssh-ed25519 B", networks={})


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins for QEMU's programs first on PATH, and return an image's folder."""
    folder = tmp_path / "bin"
    qemu.install(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    image = tmp_path / "image"
    image.mkdir()
    (image / "root.raw").touch()
    return image


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a machine's folder; remove the machine."""
    place = tmp_path / "nodes" / "n"
    yield place
    machine.remove(place)


def spec(image: Path, name: str = "n") -> MachineSpec:
    """Return a small machine."""
    return MachineSpec(stack="s", name=name, id="5a3d2c6e-2f0e", image=str(image), acceleration="tcg", cpus=1, memory_mib=64, interfaces=())


def pid_of(folder: Path) -> int:
    """Return the machine's process."""
    found = machine._process(folder)
    assert found is not None
    return found[0]


def test_machine_is_started_found_and_removed(programs: Path, folder: Path) -> None:
    live = machine.create(folder, spec(programs), IDENTITY)
    assert live.status == machine.RUNNING and machine.is_up(folder, live.instance_uid)
    assert machine.look(folder) == live
    process = pid_of(folder)
    machine.remove(folder)
    assert machine.look(folder).status == machine.ABSENT and not folder.exists()
    assert start_time(process) is None


def test_secrets_are_not_on_the_command_line(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    assert b"SECRET" not in Path(f"/proc/{pid_of(folder)}/cmdline").read_bytes()
    assert "SECRET" not in (folder / "machine.json").read_text()


def test_killed_machine_is_stopped_and_starts_as_another_instance(programs: Path, folder: Path) -> None:
    before = machine.create(folder, spec(programs), IDENTITY)
    kill(pid_of(folder))
    assert machine.look(folder).status == machine.STOPPED
    assert not machine.is_up(folder, before.instance_uid)
    after = machine.start(folder)
    assert after.status == machine.RUNNING and after.instance_uid != before.instance_uid


def test_second_start_keeps_the_running_process(programs: Path, folder: Path) -> None:
    before = machine.create(folder, spec(programs), IDENTITY)
    assert machine.start(folder) == before


def test_panicked_machine_is_reset(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    (folder / "panic").touch()
    assert machine.look(folder).status == machine.PANICKED
    (folder / "panic").unlink()
    machine.reset(folder)
    assert machine.look(folder).status == machine.RUNNING


def test_taken_port_is_reported_with_its_remedy_and_nothing_is_left(programs: Path, folder: Path) -> None:
    with pytest.raises(RackwrightError, match="Could not set up host forwarding") as caught:
        machine.create(folder, replace(spec(programs), name="fails"), IDENTITY)
    assert "access.port" in str(caught.value)
    assert not folder.exists()


def test_missing_image_is_reported_before_a_start(programs: Path, folder: Path) -> None:
    (programs / "root.raw").unlink()
    with pytest.raises(RackwrightError, match=r"root\.raw"):
        machine.create(folder, spec(programs), IDENTITY)
    assert not folder.exists()


def test_process_with_the_same_id_is_not_taken_for_the_machine(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    machine.stop(folder)
    with subprocess.Popen(["sleep", "30"]) as other:
        try:
            row = (folder / "process.json").read_text()
            (folder / "process.json").write_text(row.replace('"pid": ', f'"pid": {other.pid}, "was": '))
            assert machine.look(folder).status == machine.STOPPED
        finally:
            other.kill()
