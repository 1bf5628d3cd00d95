"""Kernel limits that all containers of one user share: inotify instances and kernel keys."""

from __future__ import annotations

from typing import Callable

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.lab_stack import LabStack
from bootstrap.machine_checks.observation import read_file, read_number

INOTIFY_PER_NODE = 8
"""A node uses 6, with Kubernetes 15 to 30 (infra/rackwright/provider/lab/inotify_limits.py); 8 leaves room, as in targets/lab/nodes.py."""
_INOTIFY_LEFT = 96
"""Above this number, and for Kubernetes, the lab raises the limit itself (targets/lab/nodes.py)."""
_LEAST_KEYS = 1
"""Keys per container: its OCI runtime joins a session keyring of its own: "create keyring: Disk quota exceeded" (crun issue 981)."""
_USUAL_KEYS = 10
"""Keys per node: four running nodes held 33, mostly of systemd's services (/proc/key-users, Podman 4.3, runc, 2026-11-26)."""
_WANTED_KEYS = 20000
"""Value that users of kind set (kind issue 3806)."""


def check_kernel_limits(machine: Machine, stack: LabStack, is_up: Callable[[], bool]) -> list[Finding]:
    """Check the limits against the number of nodes; keys of the stack's own containers are no finding."""
    allowed = read_number(machine, "/proc/sys/fs/inotify/max_user_instances")
    keys = read_file(machine, "/proc/key-users")
    setting = "kernel.keys.root_maxkeys" if machine.is_root else "kernel.keys.maxkeys"
    most = read_number(machine, "/proc/sys/" + setting.replace(".", "/"))
    quota = judge_keys(stack, machine.user_id, setting, most, keys)
    if quota.level >= Level.WARNING and is_up():
        quota = ok(setting, "the stack's containers run already")
    return [judge_inotify(stack, machine.is_root, allowed), quota]


def judge_inotify(stack: LabStack, is_root: bool, allowed: int | None) -> Finding:
    """Judge fs.inotify.max_user_instances."""
    setting = "fs.inotify.max_user_instances"
    needed = INOTIFY_PER_NODE * stack.nodes
    if is_root and (stack.is_kubernetes or needed > _INOTIFY_LEFT):
        return ok(setting, "raised by `make up` while the stack is up")
    if allowed is None:
        return unknown(setting, "it cannot be read")
    if allowed >= needed:
        return ok(setting, f"{allowed} for {stack.nodes_text}")
    return Finding(
        Level.WARNING,
        setting,
        f"too low for {stack.nodes_text} (expected {needed}, found {allowed})",
        "systemd in a node opens five instances and its dbus-daemon one",
        (f"echo {setting}={max(needed, 128)} | sudo tee /etc/sysctl.d/60-rackwright-inotify.conf", "sudo sysctl --system"),
    )


def used_keys(key_users: str, user_id: int) -> int:
    """Return the keys that count against a user's quota, from /proc/key-users (`1000:  9 8/8 3/200 40/20000`, man 5 proc)."""
    for line in key_users.splitlines():
        owner, _, fields = line.partition(":")
        numbers = fields.split()
        if owner.strip() == str(user_id) and len(numbers) == 4:
            return int(numbers[2].partition("/")[0])
    return 0


def judge_keys(stack: LabStack, user_id: int, setting: str, most: int | None, key_users: str | None) -> Finding:
    """Judge the quota of kernel keys."""
    if most is None or key_users is None:
        return unknown(setting, "the kernel's key quota cannot be read")
    used = used_keys(key_users, user_id)
    free, usual = most - used, _USUAL_KEYS * stack.nodes
    if free >= usual:
        return ok(setting, f"{most}, {used} used, for {stack.nodes_text}")
    return Finding(
        Level.ERROR if free < _LEAST_KEYS * stack.nodes else Level.WARNING,
        setting,
        f"few keys left for {stack.nodes_text} (expected {usual} free, found {free} of {most})",
        "each container takes at least one, and without it does not start (disk quota exceeded)",
        (
            f"echo {setting}={_WANTED_KEYS} | sudo tee /etc/sysctl.d/60-rackwright-keys.conf",
            f"echo {setting.replace('maxkeys', 'maxbytes')}=500000 | sudo tee -a /etc/sysctl.d/60-rackwright-keys.conf",
            "sudo sysctl --system",
        ),
    )
