"""GPUs as their driver reports them, and their device files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cluster.harness.probe import Place, Probe

_FIELDS: Final = (
    "index",
    "name",
    "memory.total",
    "driver_version",
    "ecc.errors.uncorrected.volatile.total",
    "clocks.max.sm",
    "clocks_event_reasons.active",
    "persistence_mode",
)
NORMAL_REASONS: Final = {
    0x1: "GPU idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x10: "sync boost",
    0x100: "display clock",
}
"""Why a healthy GPU's clock is below its maximum (nvml.h of driver 580, `nvmlClocksEventReason…`): it idles, somebody set its clocks, or it
works at its power limit, as an H100 does during any large BF16 product."""
FAULTY_REASONS: Final = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""The others: heat, or a power supply that asks for less."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it."""

    index: int
    product: str
    memory_mib: int
    driver: str
    uncorrected: int | None
    """Uncorrected ECC errors since the driver was loaded; None where ECC is off or not there."""
    max_clock_mhz: int
    clock_reasons: int
    """Bits of the reasons that hold its clock down; `NORMAL_REASONS` and `FAULTY_REASONS` name them."""
    persistent: bool
    """Whether the driver keeps it initialised while nobody uses it."""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Rows of nvidia-smi's CSV, in the order of `_FIELDS`; no rows at all means no GPUs."""
    if text.strip() == "No devices were found":
        return ()
    return tuple(_gpu([value.strip() for value in line.split(",")]) for line in text.splitlines() if line.strip())


def clock_faults(reasons: int) -> tuple[str, ...]:
    """Return the faults among the reasons, lowest bit first; a bit that nvml.h does not define counts as one.

    >>> clock_faults(0x4 | 0x1)
    ()
    >>> clock_faults(0x48), clock_faults(0x200)
    (('hardware slowdown', 'hardware thermal slowdown'), ('undefined reason 0x200',))
    """
    bits = (1 << number for number in range(reasons.bit_length()) if reasons >> number & 1)
    return tuple(FAULTY_REASONS.get(bit, f"undefined reason {bit:#x}") for bit in bits if bit not in NORMAL_REASONS)


def _gpu(values: list[str]) -> Gpu:
    index, product, memory, driver, uncorrected, clock, reasons, persistence = values
    absent = uncorrected.strip("[]") in ("N/A", "Not Supported")
    return Gpu(
        int(index),
        product,
        int(memory),
        driver,
        None if absent else int(uncorrected),
        int(clock),
        int(reasons, 16),
        {"Enabled": True, "Disabled": False}[persistence],
    )


GPUS = Probe(
    "gpus",
    on="gpu",
    command=f"nvidia-smi --query-gpu={','.join(_FIELDS)} --format=csv,noheader,nounits",
    parse=parse_gpus,
    statuses=frozenset({0, 6}),
)


@dataclass(frozen=True)
class Device:
    """A device file: what it is and which device it stands for."""

    path: str
    character: bool
    number: str


def parse_devices(text: str) -> tuple[Device, ...]:
    """Lines `path|kind|major:minor` of stat."""
    return tuple(
        Device(path, kind == "character special file", number) for path, kind, number in (line.split("|") for line in text.splitlines())
    )


DEVICES = Probe("gpu-devices", on="gpu", command="stat -c '%n|%F|%t:%T' /dev/nvidia[0-9]* 2>/dev/null; true", parse=parse_devices)


def parse_xids(text: str) -> tuple[str, ...]:
    """What the driver told the kernel log as XID errors, without time and host."""
    return tuple(line[line.index("Xid") :].strip() for line in text.splitlines() if "NVRM: Xid" in line)


_OF_PROGRAMS: Final = frozenset({13, 31, 43, 45})
"""XIDs of a program that went wrong and was ended, on a GPU that works on (NVIDIA, XID Errors: restart the application; 2025)."""


def is_a_programs(error: str) -> bool:
    """Whether an XID is a user's program's doing.

    >>> is_a_programs("Xid (PCI:0000:10:00): 31, pid=1234, name=python"), is_a_programs("Xid (PCI:0000:10:00): 79, pid=1234")
    (True, False)
    """
    found = re.match(r"Xid \(.*?\): (\d+)", error)
    return found is not None and int(found[1]) in _OF_PROGRAMS


def _xids(place: Place) -> str:
    """The kernel's log; simulated GPUs have one of their own, for a container sees that of the machine it runs on."""
    if place.node["gpus"]["simulated"]:
        return "cat /var/lib/rackwright/gpu-kernel.log 2>/dev/null; true"
    return "journalctl --dmesg --boot --no-pager --output=cat --grep='NVRM: Xid'"


XIDS = Probe("gpu-xids", on="gpu", command=_xids, parse=parse_xids, statuses=frozenset({0, 1}))
