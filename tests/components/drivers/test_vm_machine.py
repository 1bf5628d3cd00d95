"""Life of a virtual machine with a stand-in for QEMU: started, found by its folder, brought back, removed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from standins import qemu
from support.killing import kill

from rackwright.drivers.vm import machine
from rackwright.drivers.vm.identity import Identity
from rackwright.drivers.vm.machine_spec import MachineSpec
from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.processes import start_time

IDENTITY = Identity(hostname="n", host_key="SECRET-HOST-KEY", host_public_key="ssh-ed25519 A", authorized_key="ssh-ed25519 B", cards=())


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins for QEMU's programs first on PATH, and return an image's folder."""
    folder = tmp_path / "bin"
    qemu.install(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    image = tmp_path / "image"
    image.mkdir()
    for name in ("vmlinuz", "initrd.img", "root.raw"):
        (image / name).touch()
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
    for _ in range(600):  # A killed process exists until its parent has collected it.
        if start_time(process) is None:
            break
        time.sleep(0.05)
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


def test_panicked_machine_is_started_again(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    (folder / "panic").touch()
    assert machine.look(folder).status == machine.PANICKED
    (folder / "panic").unlink()
    machine.stop(folder)
    machine.start(folder)
    assert machine.look(folder).status == machine.RUNNING


def test_taken_port_is_reported_with_its_remedy_and_nothing_is_left(programs: Path, folder: Path) -> None:
    with pytest.raises(RackwrightError, match="Could not set up host forwarding") as caught:
        machine.create(folder, replace(spec(programs), name="fails"), IDENTITY)
    assert "access.port" in str(caught.value)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["vmlinuz", "initrd.img", "root.raw"])
def test_missing_image_is_reported_before_a_start(programs: Path, folder: Path, name: str) -> None:
    (programs / name).unlink()
    with pytest.raises(RackwrightError, match=name) as caught:
        machine.create(folder, spec(programs), IDENTITY)
    assert "builds the image" in str(caught.value)
    assert not folder.exists()


def test_unrecorded_process_ends_with_its_machine(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    process = pid_of(folder)
    (folder / "process.json").unlink()
    machine.remove(folder)
    assert start_time(process) is None and not folder.exists()


def test_start_ends_an_unrecorded_process(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    process = pid_of(folder)
    (folder / "process.json").unlink()
    assert machine.start(folder).status == machine.RUNNING
    assert start_time(process) is None and pid_of(folder) != process


def test_start_keeps_the_messages_of_the_start_before(programs: Path, folder: Path) -> None:
    machine.create(folder, spec(programs), IDENTITY)
    (folder / "console.log").write_text("Kernel panic\n")
    (folder / "qemu.log").write_text("Bail out!\n")
    machine.stop(folder)
    machine.start(folder)
    assert (folder / "qemu.log.1").read_text() == "Bail out!\n" and "Bail out!" not in (folder / "qemu.log").read_text()
    assert (folder / "console.log.1").read_text() == "Kernel panic\n" and not (folder / "console.log").exists()


def test_start_without_a_machine_leaves_no_folder(folder: Path) -> None:
    with pytest.raises(RackwrightError, match="has no machine"):
        machine.start(folder)
    assert not folder.parent.exists()


def test_machine_that_ends_while_it_is_asked_is_stopped(programs: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.create(folder, spec(programs), IDENTITY)

    def end(place: Path, command: str) -> None:
        machine.stop(place)
        raise UndeterminedError(f"QEMU does not respond to {command}")

    monkeypatch.setattr(machine.qmp, "execute", end)
    assert machine.look(folder) == machine.LiveMachine(machine.STOPPED)


def test_folder_that_cannot_be_removed_is_an_error(programs: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.create(folder, spec(programs), IDENTITY)

    def refuse(place: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(place / "disk.qcow2"))

    with monkeypatch.context() as patch:
        patch.setattr(machine.shutil, "rmtree", refuse)
        with pytest.raises(RackwrightError, match=r"cannot be removed: Operation not permitted: .*disk\.qcow2"):
            machine.remove(folder)


# Lines of QEMU 7.2.22, captured 2026-11-28; the rule's value is shortened.
LOCKED = (
    'qemu-system-x86_64: -blockdev {"node-name":"root","driver":"qcow2","file":{"driver":"file","filename":"disk.qcow2"}}: '
    'Failed to get "write" lock\nIs another process using the image [disk.qcow2]?\n'
)
MESSAGES = {
    "locked": (LOCKED, 'Failed to get "write" lock'),
    "warning-first": (
        "qemu-system-x86_64: warning: hub 0 with no nics\nqemu: could not open kernel file 'k': No such file or directory\n",
        "could not open kernel file 'k': No such file or directory",
    ),
    "option": (
        "qemu-system-x86_64: -netdev user,id=u,hostfwd=tcp:127.0.0.1:2399-10.0.2.15:22: Could not set up host forwarding rule 'tcp'\n",
        "Could not set up host forwarding rule 'tcp'",
    ),
    "memory": (
        "qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory\n",
        "cannot set up guest memory 'pc.ram': Cannot allocate memory",
    ),
    "firmware-tables": ("qemu-system-x86_64: SMBIOS 2.1 table length 66116 exceeds 65535\n", "SMBIOS 2.1 table length 66116 exceeds 65535"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("messages", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_decisive_line_is_found(messages: str, expected: str) -> None:
    assert machine._decisive(messages) == expected


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
