"""inotify instances and kernel keys against the number of nodes."""

from __future__ import annotations

import pytest

from bootstrap.machine_checks import kernel_limits
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.lab_stack import LabStack
from rackwright.targets.lab import nodes

STACK = LabStack("lab", 4, False, (2222,), "127.0.0.1")
KEY_USERS = "    0:   177 176/176 171/1000000 3610/25000000\n 1000:    62 61/61 60/200 1340/20000\n"
FULL = KEY_USERS.replace("60/200", "198/200")


def test_inotify_numbers_are_the_targets() -> None:
    assert kernel_limits.INOTIFY_PER_NODE == nodes.INOTIFY_PER_NODE
    assert kernel_limits._INOTIFY_LEFT == nodes._INOTIFY_LEFT


@pytest.mark.parametrize(
    ("count", "kubernetes", "is_root", "allowed", "level"),
    [
        (4, False, False, 128, Level.OK),
        (4, False, False, 16, Level.WARNING),
        (4, False, True, 16, Level.WARNING),
        (13, False, True, 16, Level.OK),
        (4, True, True, 16, Level.OK),
        (4, False, False, None, Level.UNKNOWN),
    ],
)
def test_inotify_is_judged(count: int, kubernetes: bool, is_root: bool, allowed: int | None, level: Level) -> None:
    stack = STACK._replace(counted_nodes=count, is_kubernetes=kubernetes)
    assert kernel_limits.judge_inotify(stack, is_root, allowed).level is level


@pytest.mark.parametrize(("user", "used"), [(0, 171), (1000, 60), (1001, 0)])
def test_used_keys_are_read(user: int, used: int) -> None:
    assert kernel_limits.used_keys(KEY_USERS, user) == used


@pytest.mark.parametrize(
    ("most", "key_users", "level"),
    [
        (200, KEY_USERS, Level.OK),
        (200, KEY_USERS.replace("60/200", "160/200"), Level.OK),
        (200, KEY_USERS.replace("60/200", "161/200"), Level.WARNING),
        (200, KEY_USERS.replace("60/200", "196/200"), Level.WARNING),
        (200, FULL, Level.ERROR),
        (None, KEY_USERS, Level.UNKNOWN),
        (200, None, Level.UNKNOWN),
    ],
)
def test_keys_are_judged(most: int | None, key_users: str | None, level: Level) -> None:
    assert kernel_limits.judge_keys(STACK, 1000, "kernel.keys.maxkeys", most, key_users).level is level


def test_key_quota_is_raised_with_bytes() -> None:
    commands = kernel_limits.judge_keys(STACK, 1000, "kernel.keys.maxkeys", 200, FULL).commands
    assert commands[1].startswith("echo kernel.keys.maxbytes=500000 | sudo tee -a ")


@pytest.mark.parametrize(("is_up", "level"), [(True, Level.OK), (False, Level.ERROR)])
def test_keys_of_running_stack_are_ok(make_machine, is_up: bool, level: Level) -> None:
    files = {
        "/proc/key-users": FULL,
        "/proc/sys/kernel/keys/maxkeys": "200\n",
        "/proc/sys/fs/inotify/max_user_instances": "128\n",
    }
    findings = kernel_limits.check_kernel_limits(make_machine(files), STACK, lambda: is_up)
    assert [each.level for each in findings] == [Level.OK, level]
