"""A user without sudo gets the commands for the administrator, and these commands suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.command import CommandResult

from newcomer.image import SUITES
from newcomer.journey import Log
from newcomer.leftovers import administrator_block
from newcomer.machine import ADMINISTRATOR, ORDINARY, Machine

pytestmark = pytest.mark.newcomer
_PACKAGES = frozenset({"podman", "uidmap", "mmdebstrap", "python3-venv"})
"""Some of those that every plain machine lacks."""


@pytest.fixture(scope="module", params=sorted(SUITES, reverse=True))
def plain(request: pytest.FixtureRequest, boot: Callable[[str, str], Machine], checkout: Path) -> Iterator[Machine]:
    """A plain machine with a checkout of the user without sudo."""
    machine = boot(request.param, f"{request.param}-guest")
    try:
        machine.clone(ORDINARY, checkout)
        yield machine
    finally:
        machine.destroy()


def _make(machine: Machine, target: str, log: Log) -> CommandResult:
    result = machine.run(ORDINARY, f"cd rackwright && make {target}", 1200)
    log(f"{result.seconds:7.0f} s  exit {result.status}   make {target} as {ORDINARY}")
    return result


@pytest.mark.parametrize("target", ["doctor", "up"])
def test_packages_are_named_for_administrator(plain: Machine, target: str, log: Log) -> None:
    result = _make(plain, target, log)
    assert not result.ok, result.end
    assert f"{ORDINARY} cannot use sudo here" in result.output and "Traceback" not in result.output, result.end
    commands = administrator_block(result.output)
    words = {word for command in commands for word in command.split()}
    assert {"sudo", "apt-get", "install", *_PACKAGES} <= words, result.end


def test_refused_up_creates_nothing(plain: Machine) -> None:
    result = plain.run(ORDINARY, "cd rackwright && git status --porcelain --ignored && ls -A ~/.cache ~/.local 2>/dev/null")
    assert [line for line in result.output.splitlines() if "__pycache__" not in line] == [], result.end


def test_doctor_passes_after_administrator_commands(plain: Machine, log: Log) -> None:
    commands = administrator_block(_make(plain, "doctor", log).output)
    result = plain.run(ADMINISTRATOR, "set -e\n" + "\n".join(commands), 3600)
    log(f"{result.seconds:7.0f} s  exit {result.status}   the administrator's commands")
    assert result.ok, result.end
    # A session begins after the packages of the user's D-Bus are there.
    plain.log_out()
    doctor = _make(plain, "doctor", log)
    assert doctor.ok and administrator_block(doctor.output) == [], doctor.end
