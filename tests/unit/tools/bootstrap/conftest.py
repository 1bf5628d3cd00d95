"""Machines that are made up: a root folder, a PATH of its own, and commands that print what real ones printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bootstrap.machine import Machine

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n'
ROCKY = 'PRETTY_NAME="Rocky Linux 9.6 (Blue Onyx)"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'

MakeMachine = Callable[..., Machine]


@pytest.fixture
def make_machine(tmp_path: Path) -> MakeMachine:
    """Return a function that makes a machine from files, commands (name: script) and environment variables."""

    def make(
        files: dict[str, str] | None = None,
        commands: dict[str, str] | None = None,
        environ: dict[str, str] | None = None,
        user_id: int = 1000,
        release: str = DEBIAN,
    ) -> Machine:
        root = tmp_path / "root"
        for name, text in {"/etc/os-release": release, **(files or {})}.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (root / "bin").mkdir(exist_ok=True)
        for name, script in (commands or {}).items():
            (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (root / "bin" / name).chmod(0o755)
        variables = {"PATH": str(root / "bin"), "HOME": str(root / "home/alice"), **(environ or {})}
        return Machine("Linux", "x86_64", root, variables, user_id, (3, 13), "root" if user_id == 0 else "alice")

    return make


@pytest.fixture
def debian() -> str:
    """The os-release of Debian 13."""
    return DEBIAN


@pytest.fixture
def rocky() -> str:
    """The os-release of Rocky Linux 9."""
    return ROCKY
