"""What roles install, where no test runs it: read from their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).parents[2] / "roles"
PACKAGERS = {"debian": ("rackwright_apt", "ansible.builtin.apt"), "rocky": ("ansible.builtin.dnf",)}


def tasks(role: str, step: str = "install") -> Iterator[dict[str, Any]]:
    """The tasks of one step, those of blocks too, in order."""
    waiting = yaml.safe_load((ROLES / role / "tasks" / f"{step}.yml").read_text(encoding="utf-8"))
    while waiting:
        task = waiting.pop(0)
        waiting = [*task.get("block", []), *waiting]
        yield task


def packages(role: str, system: str, step: str = "install") -> list[str]:
    """What the package manager of the system is asked for by name."""
    asked = [task[module].get("name", []) for task in tasks(role, step) for module in PACKAGERS[system] if module in task]
    return [name for names in asked for name in ([names] if isinstance(names, str) else names)]


@pytest.mark.parametrize("system", PACKAGERS)
def test_sssd_comes_with_the_service_that_sssctl_asks(system: str) -> None:
    """`sssctl domain-status` asks InfoPipe, which D-Bus starts where its package is."""
    assert {"sssd-tools", "sssd-dbus"} <= set(packages("sssd", system))
