"""Simulated GPUs: their properties from the plan, and the faults that a test injected.

The plan's part is written by Ansible and stays as it is; faults lie in a file of their own: setting one is no change of configuration.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

FOLDER = "/var/lib/rackwright"
IDLE_CLOCK = 345  # MHz, what an idle H100 shows
FAULTS = ("missing", "ecc", "xid", "clock", "max-clock", "persistence", "driver", "remap", "pcie", "reset", "sxid")


class Gpu(NamedTuple):
    """One GPU as a healthy or faulty driver would show it."""

    slot: int
    uuid: str
    product: str
    memory_mib: int | None  # None: the GPU shares the memory of its CPU
    driver: str
    sm_clock: int
    sm_clock_max: int
    ecc_uncorrected: int
    persistent: bool = True
    remap_pending: bool = False
    pcie_width: int = 16
    needs_reset: bool = False

    @property
    def bus_id(self) -> str:
        """As nvidia-smi prints it."""
        return f"0000{bus_address(self.slot)}.0"


def bus_address(slot: int) -> str:
    """A PCI address of the simulation's own, domain, bus and device; it does not change when another GPU goes missing."""
    return f"{slot // 15:04X}:{0x10 * (slot % 15 + 1):02X}:00"


def read(name: str, folder: str = FOLDER) -> dict[str, Any]:
    """One of the state files; empty where it is missing."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as stream:
            found = json.load(stream)
    except FileNotFoundError:
        return {}
    return dict(found)


def write_faults(faults: dict[str, Any], folder: str = FOLDER) -> None:
    """Replaces the faults; none at all removes the file."""
    path = os.path.join(folder, "gpu-faults.json")
    if not faults:
        if os.path.exists(path):
            os.unlink(path)
        return
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        json.dump(faults, stream)
    os.replace(f"{path}.new", path)


def present(folder: str = FOLDER) -> list[Gpu]:
    """The GPUs that a driver would list, in its order."""
    plan, faults = read("gpus.json", folder), read("gpu-faults.json", folder)
    missing = faults.get("missing", {})
    return [seen(plan, faults, slot, uuid) for slot, uuid in enumerate(plan.get("uuids", [])) if str(slot) not in missing]


def seen(plan: dict[str, Any], faults: dict[str, Any], slot: int, uuid: str) -> Gpu:
    """One GPU with the faults that were set in it."""
    highest = faults.get("max-clock", {}).get(str(slot), plan["sm_clock_mhz"])
    return Gpu(
        slot=slot,
        uuid=uuid,
        product=plan["product"],
        memory_mib=plan["memory_mib"],
        driver=faults.get("driver") or plan["driver"],
        sm_clock=faults.get("clock", {}).get(str(slot), highest),
        sm_clock_max=highest,
        ecc_uncorrected=faults.get("ecc", {}).get(str(slot), 0),
        persistent=str(slot) not in faults.get("persistence", {}),
        remap_pending=str(slot) in faults.get("remap", {}),
        pcie_width=faults.get("pcie", {}).get(str(slot), 16),
        needs_reset=str(slot) in faults.get("reset", {}),
    )
