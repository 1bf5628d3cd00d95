"""Storage of rootless Podman: overlay instead of vfs, where nothing exists yet."""

from __future__ import annotations

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.machine_checks.storage_driver import OVERLAY, observe_storage_driver
from bootstrap.stage import Stages


def choose_overlay(machine: Machine, stages: Stages) -> None:
    """Write the user's storage.conf if Podman would copy the whole image for each node, and if neither a store nor a file exists."""
    if machine.is_root:
        return
    driver = observe_storage_driver(machine)
    if not driver.is_open:
        return
    with stages.stage(f"storage driver of Podman: overlay, in {driver.file}"):
        try:
            driver.file.parent.mkdir(parents=True, exist_ok=True)
            driver.file.write_text(OVERLAY, encoding="utf-8")
        except OSError as error:
            raise Failure(f"{driver.file} cannot be written: {error.strerror}") from None
