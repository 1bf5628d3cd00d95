"""Storage driver of rootless Podman: which one Podman uses, and where setup may choose overlay."""

from __future__ import annotations

import pytest

from bootstrap.failure import Failure
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.storage_driver import check_storage_driver, observe_storage_driver
from bootstrap.podman_storage import choose_overlay
from bootstrap.stage import Stages

OVERLAY = '[storage]\ndriver = "overlay"\n'
VFS = '[storage]\n  driver = "vfs"\n'
OWN = "/home/alice/.config/containers/storage.conf"
SYSTEM = "/etc/containers/storage.conf"


def _machine(make_machine, podman: str, files: dict[str, str], store: str = "", kernel: str = "6.1.0-32-amd64\n", **more):
    machine = make_machine({"/proc/sys/kernel/osrelease": kernel, **files}, {"podman": f"echo podman version {podman}"}, **more)
    if store:
        (machine.root / f"home/alice/.local/share/containers/storage/{store}-images").mkdir(parents=True)
    return machine


@pytest.mark.parametrize(
    ("podman", "files", "store", "found", "level"),
    [
        ("4.3.1", {}, "overlay", "overlay", Level.OK),
        ("5.4.2", {}, "vfs", "vfs", Level.WARNING),
        ("4.3.1", {}, "vfs", "vfs", Level.WARNING),
        ("4.3.1", {OWN: OVERLAY}, "", "overlay", Level.OK),
        ("4.3.1", {SYSTEM: OVERLAY}, "", "overlay", Level.OK),
        ("4.3.1", {"/usr/share/containers/storage.conf": OVERLAY}, "", "overlay", Level.OK),
        ("5.4.2", {SYSTEM: VFS}, "", "vfs", Level.WARNING),
        ("4.3.1", {OWN: OVERLAY, SYSTEM: VFS}, "", "overlay", Level.OK),
        ("5.4.2", {}, "", "", Level.OK),
        ("4.3.1", {OWN: "[storage]\n"}, "", "vfs", Level.WARNING),
    ],
)
def test_driver_is_judged(make_machine, podman: str, files: dict[str, str], store: str, found: str, level: Level) -> None:
    machine = _machine(make_machine, podman, files, store)
    assert observe_storage_driver(machine).name == found
    finding = check_storage_driver(machine)
    assert finding.level is level
    assert any("system reset" in command for command in finding.commands) is (store == "vfs")
    choose_overlay(machine, Stages())
    assert (machine.root / OWN[1:]).exists() is (OWN in files), "nothing is written where something exists"


def test_setup_chooses_overlay_where_nothing_exists(make_machine) -> None:
    machine = _machine(make_machine, "4.3.1", {})
    assert check_storage_driver(machine).level is Level.OK
    choose_overlay(machine, Stages())
    assert (machine.root / OWN[1:]).read_text() == OVERLAY
    assert check_storage_driver(machine).found == "overlay"


@pytest.mark.parametrize(("kernel", "user_id"), [("5.10.0-28-amd64\n", 1000), ("6.1.0-32-amd64\n", 0)])
def test_setup_writes_nothing_for_old_kernels_and_root(make_machine, kernel: str, user_id: int) -> None:
    machine = _machine(make_machine, "4.3.1", {}, kernel=kernel, user_id=user_id)
    choose_overlay(machine, Stages())
    assert not (machine.root / OWN[1:]).exists()


def test_setup_names_the_file_that_cannot_be_written(make_machine) -> None:
    machine = _machine(make_machine, "4.3.1", {"/home/alice/.config": "a file"})
    with pytest.raises(Failure, match=r"storage\.conf cannot be written: Not a directory"):
        choose_overlay(machine, Stages())
