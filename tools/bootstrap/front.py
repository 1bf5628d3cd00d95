"""Commands of the bootstrap: `setup` (packages, Python, engine), `venv`, `doctor` (what is missing), `installed` (for a wheel)."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from bootstrap import engine, environment, packages, podman_storage
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.machine_checks import text
from bootstrap.machine_checks.every_check import check_containers, check_machine, needs_root
from bootstrap.machine_checks.finding import Group
from bootstrap.stage import Stages

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def main(arguments: list[str]) -> int:
    """Run a command. Exit code: 0 success, 2 this machine or user cannot do it and the text states the remedy."""
    parser = argparse.ArgumentParser(prog="bootstrap", description="Sets up a machine for rackwright.")
    parser.add_argument("wanted", choices=["setup", "venv", "doctor", "installed"])
    parser.add_argument("--stack", default="lab", help="the stack `setup` and `doctor` are for; only a lab needs containers")
    parser.add_argument("--dev", action="store_true", help="install the tools for tests and checks too (requirements-dev.lock)")
    parser.add_argument("--without-ports", action="store_true", help="the stack itself is not brought up (tests make their own)")
    parser.add_argument("--venv", type=Path, help="with `installed`: the environment that rackwright is installed in")
    parser.add_argument("--project", type=Path, help="with `installed`: the project folder, which holds the stack file")
    options = parser.parse_args(arguments)
    if options.wanted == "installed" and not (options.venv and options.project):
        parser.error("`installed` needs --venv and --project")
    machine = Machine.this(os.environ)
    try:
        machine.must_be_linux()
        if options.wanted == "doctor":
            from bootstrap import doctor

            report = doctor.report(machine, CHECKOUT, options.stack)
            print(report.text, end="")
            return 2 if report.has_errors else 0
        if options.wanted == "installed":
            set_up_installed(machine, options.stack, options.venv, options.project)
            return 0
        set_up(machine, options.stack if options.wanted == "setup" else None, options.dev, with_ports=not options.without_ports)
    except Failure as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the next run continues here", file=sys.stderr)
        return 130
    return 0


def set_up(machine: Machine, stack: str | None, dev: bool = False, *, with_ports: bool = True) -> None:
    """Set up system packages (for a stack that needs them), the virtual environment and the engine; skip what exists."""
    stages = Stages()
    needs = packages.wanted(CHECKOUT, stack, machine, dev=dev)
    if stack is not None:
        absent = packages.missing(machine, needs)
        installs = [] if needs_root(machine, CHECKOUT, stack) else packages.commands(machine, absent)
        require_machine(machine, check_machine(machine, CHECKOUT, stack, with_ports), installs)
        packages.install(machine, stages, needs)
        if absent:
            require_machine(machine, check_containers(machine, CHECKOUT, stack, with_ports), [])
        if packages.is_lab(CHECKOUT, stack):
            podman_storage.choose_overlay(machine, stages)
    else:
        packages.install(machine, stages, needs)
    environment.create(machine, stages, CHECKOUT, dev)
    engine.provide(machine, stages, CHECKOUT, CHECKOUT / ".venv")
    stages.end()


def set_up_installed(machine: Machine, stack: str, venv: Path, project: Path) -> None:
    """Set up system packages and the engine for an installed wheel, whose environment pip or uv has filled; skip what exists."""
    stages = Stages()
    needs = tuple(need for need in packages.wanted(project, stack, machine) if need is not packages.PYTHON)
    absent = packages.missing(machine, needs)
    installs = [] if needs_root(machine, project, stack) else packages.commands(machine, absent)
    require_machine(machine, check_containers(machine, project, stack), installs)
    packages.install(machine, stages, needs)
    if packages.is_lab(project, stack):
        podman_storage.choose_overlay(machine, stages)
    engine.provide(machine, stages, CHECKOUT, venv)
    environment.install_shim(CHECKOUT, venv)
    stages.end()


def require_machine(machine: Machine, groups: tuple[Group, ...], installs: list[list[str]]) -> None:
    """Print warnings; raise Failure if an error makes the rest useless, or if only an administrator can install packages."""
    problems = text.format_problems(groups)
    stops = text.has_errors(groups)
    # sudo logs each refused use: run it only if the result matters.
    may_sudo = machine.is_root or not (installs or stops) or packages.may_sudo(machine)
    if stops or (installs and not may_sudo):
        commands = [] if machine.is_root else text.commands_for_root(groups, map(shlex.join, installs))
        heading = f"{machine.name}: nothing was installed or created." if stops else "System packages are missing."
        raise Failure("\n".join([heading, *problems, "", *text.format_block(commands, machine.user, may_sudo)]).rstrip())
    if problems:
        print("\n".join(problems), flush=True)
