"""The control group hierarchy and what is delegated to a user."""

from __future__ import annotations

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
    assert control_groups.judge_version(unified, is_root, "apt").level is level


def test_hybrid_error_names_boot_option_and_root() -> None:
    finding = control_groups.judge_version(False, False, "dnf")
    assert "sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1" in finding.commands
    assert "sudo make up" in finding.then


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
