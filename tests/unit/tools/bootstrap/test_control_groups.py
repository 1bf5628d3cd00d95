"""The control group hierarchy and what is delegated to a user."""

from __future__ import annotations

import subprocess

import pytest

from bootstrap.machine_checks import control_groups
from bootstrap.machine_checks.finding import Level

CONTROLLERS = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers"


@pytest.mark.parametrize(
    ("unified", "is_root", "level"),
    [
        (True, False, Level.OK),
        (True, True, Level.OK),
        (False, True, Level.OK),
        (False, False, Level.ERROR),
        (None, False, Level.UNKNOWN),
    ],
)
def test_hierarchy_version_is_judged(unified: bool | None, is_root: bool, level: Level) -> None:
    assert control_groups.judge_version(unified, is_root, ()).level is level


def test_hybrid_error_names_boot_option_and_root() -> None:
    finding = control_groups.judge_version(False, False, ("sudo reboot",))
    assert finding.commands == ("sudo reboot",)
    assert "systemd.unified_cgroup_hierarchy=1" in finding.then
    assert "sudo make up" in finding.then


def test_boot_option_is_set_with_grubby(make_machine, rocky: str) -> None:
    machine = make_machine(commands={"grubby": ""}, release=rocky)
    finding = control_groups.check_control_groups(machine, False)[0]
    assert finding.commands[0] == "sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1"


@pytest.mark.parametrize("before", ["", "systemd.unified_cgroup_hierarchy=0"])
def test_boot_option_is_appended_for_grub(make_machine, before: str) -> None:
    machine = make_machine({"/etc/default/grub": f'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="{before}"\n'})
    file = machine.root / "etc/default/grub"
    edit = control_groups.check_control_groups(machine, False)[0].commands[0]
    subprocess.run(edit.replace("sudo ", "").replace("/etc/default/grub", str(file)), shell=True, check=True)
    assert file.read_text().splitlines()[1:] == [
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet"',
        f'GRUB_CMDLINE_LINUX="{before} systemd.unified_cgroup_hierarchy=1"',
    ]


def test_boot_commands_are_absent_without_loader(make_machine) -> None:
    assert control_groups.check_control_groups(make_machine(), False)[0].commands == ()


@pytest.mark.parametrize(
    ("delegated", "level"),
    [
        ("cpuset cpu io memory hugetlb pids rdma misc\n", Level.OK),
        ("cpu memory pids\n", Level.INFO),  # Debian 12
        ("memory pids\n", Level.WARNING),  # Ubuntu 22.04, Rocky 9
        ("\n", Level.WARNING),
        (None, Level.UNKNOWN),
    ],
)
def test_delegated_controllers_are_judged(delegated: str | None, level: Level) -> None:
    assert control_groups.judge_controllers(delegated).level is level


def test_incomplete_delegation_names_drop_in() -> None:
    finding = control_groups.judge_controllers("memory pids\n")
    assert "limits of cpu" in finding.reason
    assert any("Delegate=cpu cpuset io memory pids" in command for command in finding.commands)
    assert "log in again" in finding.then


def test_hierarchy_is_recognised_by_its_files(make_machine) -> None:
    assert control_groups.is_unified(make_machine()) is None
    machine = make_machine({"/sys/fs/cgroup/systemd/tasks": ""})
    assert control_groups.is_unified(machine) is False
    assert [each.level for each in control_groups.check_control_groups(machine, False)] == [Level.ERROR]


def test_controllers_of_user_are_read(make_machine) -> None:
    machine = make_machine({"/sys/fs/cgroup/cgroup.controllers": "cpu memory pids", CONTROLLERS: "cpuset cpu memory pids\n"})
    assert control_groups.is_unified(machine) is True
    assert [each.level for each in control_groups.check_control_groups(machine, True)] == [Level.OK, Level.OK]
