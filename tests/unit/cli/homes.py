"""Homes with stacks in them, for the tests of `rackwright state`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.inventory import paths

STATE = ".engine/state/.pulumi"
"""The engine's state in a home."""


def go_to(home: Path, monkeypatch: pytest.MonkeyPatch, *stacks: str, passphrase: str = "hush") -> Path:
    """Chooses a home, and fills it."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(home))
    for stack in stacks:
        paths.prepare(stack)
        write(home, f"{STATE}/stacks/rackwright/{stack}.json", f"state of {stack}")
        write(home, f"{STATE}/history/rackwright/{stack}/1.json", "once")
        write(home, f"{stack}/id_ed25519", f"key of {stack}")
        write(home, f"{stack}/ssh_config", f"IdentityFile {home}/{stack}/id_ed25519\nControlPath {paths.socket_folder(stack)}/%n\n")
    if stacks:
        write(home, ".engine/passphrase", passphrase)
        write(home, f"{STATE}/meta.yaml", "version: 1")
    return home


def write(home: Path, name: str, text: str) -> Path:
    """One file, with the rights that the engine gives its own."""
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)
    return file


def contents(home: Path) -> dict[str, str]:
    """Every plain file of a home."""
    return {str(file.relative_to(home)): file.read_text() for file in home.rglob("*") if file.is_file() and not file.is_symlink()}
