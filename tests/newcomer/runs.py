"""Test runs: each has an id, a folder, and an owner whose end makes its machines leftovers."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from newcomer import qemu
from newcomer.image import cache_folder, provide_image
from newcomer.machine import Machine, destroy_folder
from newcomer.process import Process


@dataclass(frozen=True)
class Run:
    """One run of these tests and the folder of everything it creates."""

    run_id: str
    folder: Path

    @classmethod
    def begin(cls) -> Run:
        """Create a run that belongs to this process."""
        runs = runs_folder()
        runs.mkdir(parents=True, exist_ok=True)
        # Another process removes a run without an owner, so the folder appears with its owner in it.
        fresh = Path(tempfile.mkdtemp(prefix="run-", dir=runs.parent))
        if owner := Process.observe(os.getpid()):
            owner.record(fresh / "owner")
        run_id = secrets.token_hex(4)
        return cls(run_id, fresh.rename(runs / run_id))

    def create_machine(self, os_name: str, name: str) -> Machine:
        """Return a machine of a release that is not started yet."""
        image = provide_image(os_name)
        return Machine(self.folder / name, self.run_id, image, qemu.choose_accel(image))

    def remove(self) -> None:
        """End and remove every machine of the run."""
        for machine in sorted(path for path in self.folder.glob("*") if path.is_dir()):
            destroy_folder(machine)
        shutil.rmtree(self.folder, ignore_errors=True)


def runs_folder() -> Path:
    """Return the folder of all runs of this user."""
    return cache_folder() / "runs"


def list_runs() -> list[Run]:
    """Return all runs of this user."""
    return [Run(path.name, path) for path in sorted(runs_folder().glob("*")) if path.is_dir()]


def remove_orphans() -> list[str]:
    """Remove the runs whose owner has ended. Return their ids."""
    removed = []
    for run in list_runs():
        owner = Process.read(run.folder / "owner")
        if owner is None or not owner.is_alive():
            run.remove()
            removed.append(run.run_id)
    return removed
