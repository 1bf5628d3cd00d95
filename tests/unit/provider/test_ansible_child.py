"""Ansible's own files lie with the stack, and those of a run that was killed do not stay."""

from __future__ import annotations

import os
from pathlib import Path

from rackwright.provider.drivers.ansible_child import own_folder

_NOBODY = 2**22 + 1
"""Above the highest process id of Linux (man 5 proc_sys_kernel, pid_max)."""


def test_a_run_s_files_lie_beside_the_inventory_and_go_with_it(tmp_path: Path) -> None:
    with own_folder(tmp_path) as folder:
        assert Path(folder).parent == tmp_path and Path(folder).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    dead, living = tmp_path / f".ansible-{_NOBODY}-x", tmp_path / f".ansible-{os.getppid()}-x"
    for folder in (dead, living):
        folder.mkdir()
        (folder / "stdout").touch()
    with own_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == [living]
