"""Ansible's own report of a run: the lines that differ, and no secret."""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml

from rackwright.drivers import ansible
from rackwright.inventory import paths


def test_check_mode_reports_differing_lines_of_file(tmp_path: Path) -> None:
    """The test runs Ansible itself."""
    play = {"name": "Play", "hosts": "localhost", "connection": "local", "gather_facts": False}
    copy = {"name": "Write it", "ansible.builtin.copy": {"dest": str(tmp_path / "file"), "content": "a\nb 8\n", "mode": "0600"}}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": [copy]}]))
    (tmp_path / "inventory.yml").write_text("all: {hosts: {localhost: {}}}")
    (tmp_path / "file").write_text("a\nb 7\n")
    applied = asyncio.run(play_it(tmp_path, check=True))
    (one,) = applied.changed
    assert (one.live, one.declared) == (f"{tmp_path}/file: b 7", f"{tmp_path}/file: b 8"), applied


def test_check_mode_reports_secret_change_without_content(tmp_path: Path) -> None:
    """The test runs Ansible itself: its runner removes the results of such tasks."""
    secret = "a-secret-of-root"
    play = {"name": "Play", "hosts": "localhost", "connection": "local", "gather_facts": False}
    copy = {"name": "Write it", "ansible.builtin.copy": {"dest": str(tmp_path / "file"), "content": secret, "mode": "0600"}, "no_log": True}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": [copy]}]))
    (tmp_path / "inventory.yml").write_text("all: {hosts: {localhost: {}}}")
    for expected in (1, 0):
        applied = asyncio.run(play_it(tmp_path))
        assert (applied.status, [one.task for one in applied.changed]) == (0, ["Write it"] * expected), applied
        assert secret not in str(applied)


async def play_it(folder: Path, *, check: bool = False) -> ansible.PlaybookResult:
    async def quiet(_: str) -> None:
        pass

    root = paths.project_root()
    return await ansible.play(root, str(folder / "play.yml"), inventory=folder / "inventory.yml", check=check, on_progress=quiet)
