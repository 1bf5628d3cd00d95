"""Packages of the roles: an image that has them saves the emulator minutes for each one."""

from __future__ import annotations

import yaml
from support.project import ROOT


def packages_of(role: str) -> list[str]:
    """Return the packages that a role installs with apt."""
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / "install.yml").read_text(encoding="utf-8"))
    named = [task["rackwright.cluster.apt"]["name"] for task in tasks if "rackwright.cluster.apt" in task]
    return [name for names in named for name in ([names] if isinstance(names, str) else names)]
