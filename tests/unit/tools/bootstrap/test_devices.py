"""Devices that nodes and Podman open."""

from __future__ import annotations

import pytest

from bootstrap.machine_checks import devices
from bootstrap.machine_checks.finding import Level


@pytest.mark.parametrize(
    ("error", "level", "command"),
    [
        ("", Level.OK, None),
        ("EACCES", Level.ERROR, "sudo chmod 666 /dev/net/tun"),
        ("EPERM", Level.ERROR, None),
        ("ENOENT", Level.ERROR, "sudo modprobe tun"),
        ("ENODEV", Level.ERROR, "sudo modprobe tun"),
        ("ENXIO", Level.ERROR, "sudo modprobe tun"),
    ],
)
def test_device_is_judged_by_opening(error: str, level: Level, command: str | None) -> None:
    finding = devices.judge_device("/dev/net/tun", "tun", "reason", error)
    assert finding.level is level
    assert finding.commands == (() if command is None else (command,))


def test_refused_device_names_container_option() -> None:
    assert "--device /dev/fuse" in devices.judge_device("/dev/fuse", "fuse", "reason", "EPERM").then


def test_missing_devices_are_errors(make_machine) -> None:
    machine = make_machine({"/dev/fuse": ""})
    assert [(each.subject, each.level) for each in devices.check_devices(machine)] == [
        ("/dev/fuse", Level.OK),
        ("/dev/net/tun", Level.ERROR),
    ]


def test_tun_is_not_needed_by_root(make_machine) -> None:
    assert [each.subject for each in devices.check_devices(make_machine(user_id=0))] == ["/dev/fuse"]
