"""All checks of one stack on one machine, in the order in which they are shown."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from bootstrap import packages
from bootstrap.machine import Machine
from bootstrap.machine_checks import (
    capacity,
    clock,
    container_engine,
    control_groups,
    devices,
    downloads,
    kernel_limits,
    network,
    session,
    storage_driver,
    user_ids,
    user_namespaces,
)
from bootstrap.machine_checks.finding import Finding, Group, Level
from bootstrap.machine_checks.lab_stack import LabStack, read_stack


def check_machine(machine: Machine, checkout: Path, stack_name: str, with_ports: bool = True) -> tuple[Group, ...]:
    """Run all checks that the stack needs; every stack needs those of the downloads."""
    home = capacity.check_home(machine, downloads.needed_space(machine, checkout))
    places = [checkout, checkout / ".venv", checkout / ".venv/bin"] if downloads.needs_python_packages(machine, checkout) else []
    closed = [str(place) for place in places if os.path.exists(place) and not os.access(place, os.W_OK | os.X_OK)]
    own = capacity.judge_checkout(str(checkout), closed, machine.user)
    fetched = Group("Home, clock and network", (home, own, *_check_downloads(machine, checkout, stack_name)))
    return (*check_containers(machine, checkout, stack_name, with_ports), *_commands_for(machine, [fetched]))


def check_containers(machine: Machine, checkout: Path, stack_name: str, with_ports: bool = True) -> tuple[Group, ...]:
    """Check the requirements of a lab's containers, which no other stack has.

    `with_ports`: the stack itself is created, so that its ports must be free.
    """
    if not packages.is_lab(checkout, stack_name):
        return ()
    stack = read_stack(checkout, stack_name)
    return _commands_for(machine, _check_lab(machine, stack if with_ports else stack._replace(ports=())))


def needs_root(machine: Machine, checkout: Path, stack_name: str) -> bool:
    """Return whether only root can run the stack and this user is not root."""
    stack = read_stack(checkout, stack_name)
    return packages.is_lab(checkout, stack_name) and container_engine.judge_privileges(stack, machine.is_root).level is Level.ERROR


def _commands_for(machine: Machine, groups: list[Group]) -> tuple[Group, ...]:
    """Return the commands for this user: root needs no sudo, and a minimal system has none."""
    if not machine.is_root:
        return tuple(groups)
    return tuple(
        Group(
            group.title,
            tuple(each._replace(commands=tuple(line.replace("sudo ", "") for line in each.commands)) for each in group.findings),
        )
        for group in groups
    )


def _check_lab(machine: Machine, stack: LabStack) -> list[Group]:
    unified = control_groups.is_unified(machine)
    privileges = container_engine.judge_privileges(stack, machine.is_root)
    # If root must run it, what an ordinary user lacks does not matter.
    if privileges.level is Level.ERROR:
        return [Group("Container engine", (privileges,))]
    is_up = functools.lru_cache(maxsize=None)(functools.partial(capacity.has_containers, machine, stack))
    groups = [
        Group("Container engine", (privileges, *container_engine.check_engine(machine, unified))),
        Group("Control groups", tuple(control_groups.check_control_groups(machine, unified))),
    ]
    if not machine.is_root:
        rootless = [*user_ids.check_user_ids(machine), *user_namespaces.check_user_namespaces(machine)]
        if machine.which("podman"):
            rootless.append(storage_driver.check_storage_driver(machine))
        groups += [
            Group(f"Session of {machine.user}", tuple(session.check_session(machine))),
            Group("Rootless containers", tuple(rootless)),
        ]
    limits = [*devices.check_devices(machine), *kernel_limits.check_kernel_limits(machine, stack, is_up)]
    return [
        *groups,
        Group("Devices and kernel limits", tuple(limits)),
        Group("Room", tuple(capacity.check_capacity(machine, stack, is_up))),
    ]


def _check_downloads(machine: Machine, checkout: Path, stack_name: str) -> list[Finding]:
    """Check the servers of required downloads; without any, use no network, because the machine may be offline."""
    absent = bool(downloads.missing_packages(machine, checkout, stack_name))
    targets = []
    if absent and machine.manager == "apt":
        targets += [network.Target("system packages", address) for address in downloads.apt_servers(machine)]
    if downloads.needs_python_packages(machine, checkout):
        targets.append(network.Target("Python packages", *downloads.package_index(machine)))
    fetches = bool(targets) or absent or downloads.needs_engine(machine, checkout)
    findings = clock.check_clock(checkout)
    if not fetches:
        return findings
    return [*findings, *network.check_proxies(machine, absent), *network.check_servers(targets)]
