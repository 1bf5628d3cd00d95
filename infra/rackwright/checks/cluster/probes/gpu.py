"""Probes of GPUs, as their driver reports them, and of their device files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackwright.checks.cluster.harness.probe import Probe, gpu_tool_seconds
from rackwright.checks.cluster.harness.tool_output import (
    Lines,
    Row,
    UnreadableValue,
    flag,
    hexadecimal,
    integer,
    is_cut,
    lines_of,
    quoted,
    read_each_line,
    release,
    words,
)
from rackwright.checks.cluster.probes.nvidia_smi import ENDS, GpuList, needs_reset, query, read_long, read_table

_FIELDS: Final = (
    "index",
    "name",
    "memory.total",
    "driver_version",
    "ecc.errors.uncorrected.volatile.total",
    "clocks.max.sm",
    "clocks_event_reasons.active",
    "persistence_mode",
    "pci.bus_id",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "retired_pages.pending",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pstate",
)
NORMAL_REASONS: Final = {
    0x1: "GPU idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x10: "sync boost",
    0x100: "display clock",
}
"""Reasons for which a healthy GPU's clock is below its maximum (nvml.h of driver 580, `nvmlClocksEventReason…`): the GPU is idle, a user
set its clocks, or the GPU is at its power limit, as an H100 is during any large BF16 product."""
FAULTY_REASONS: Final = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Reasons that indicate a fault: heat, or a power supply that requests a lower power."""


if TYPE_CHECKING:  # Python 3.9 on nodes has no `|` between types
    from typing import TypeAlias

    Whole: TypeAlias = int | UnreadableValue
    Text: TypeAlias = str | UnreadableValue
    YesNo: TypeAlias = bool | UnreadableValue


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it. None where the GPU has no such value, UnreadableValue where the value was not read."""

    index: Whole
    product: Text
    memory_mib: Whole
    driver: Text
    uncorrected: Whole | None
    """Uncorrected ECC errors since the driver was loaded; None where ECC is off or not supported."""
    max_clock_mhz: Whole
    clock_reasons: Whole
    """Bits of the reasons for a reduced clock; `NORMAL_REASONS` and `FAULTY_REASONS` name them. A newer driver may define others."""
    persistent: YesNo | None
    """Whether the driver keeps the GPU initialised while no process uses it (persistence mode); None where it has no such mode."""
    bus: Text
    """PCI address."""
    remap_pending: YesNo | None
    """Whether memory rows are pending a reset to be remapped; None before Ampere."""
    remap_failed: YesNo | None
    retire_pending: YesNo | None
    """Whether memory pages are pending a reset to be retired; None from Ampere on."""
    pcie_width: Whole | None
    pcie_width_max: Whole | None
    """Number of PCIe lanes of the GPU in its slot; None for a virtual GPU."""
    pcie_generation: Whole | None
    pcie_generation_max: Whole | None
    state: Text | None
    """Performance state, P0 (maximum) to P12. Below P0 the driver may lower the generation of the PCIe link."""
    needs_reset: bool
    """Whether the driver prints "GPU requires reset" in place of a value."""

    @property
    def label(self) -> str:
        """Return the name of the GPU in results."""
        return "GPU of unknown index" if isinstance(self.index, UnreadableValue) else f"GPU {self.index}"


def parse_gpus(text: str) -> GpuList[Gpu]:
    """Return the GPUs of nvidia-smi's CSV, in the order of `_FIELDS` or of its titles. Raise ValueError where it lists none."""
    return read_table(text, _FIELDS, _gpu)


def clock_faults(reasons: int) -> tuple[str, ...]:
    """Return the faults among the reasons, lowest bit first. Raise ValueError for a reason that nvml.h does not define, beside no fault.

    >>> clock_faults(0x4 | 0x1), clock_faults(0x248)
    ((), ('hardware slowdown', 'hardware thermal slowdown'))
    """
    bits = [1 << number for number in range(reasons.bit_length()) if reasons >> number & 1]
    faults = tuple(FAULTY_REASONS[bit] for bit in bits if bit in FAULTY_REASONS)
    undefined = [bit for bit in bits if bit not in NORMAL_REASONS and bit not in FAULTY_REASONS]
    if undefined and not faults:
        raise ValueError(f"undefined reason {undefined[0]:#x}")
    return faults


def _gpu(row: Row) -> Gpu:
    return Gpu(
        index=row.read("index", integer),
        product=row.read("name", words),
        memory_mib=row.read("memory.total", integer),
        driver=row.read("driver_version", release),
        uncorrected=row.counter("ecc.errors.uncorrected.volatile.total", integer),
        max_clock_mhz=row.read("clocks.max.sm", integer),
        clock_reasons=row.read("clocks_event_reasons.active", hexadecimal),
        persistent=row.counter("persistence_mode", flag),
        bus=row.read("pci.bus_id", words),
        remap_pending=row.counter("remapped_rows.pending", flag),
        remap_failed=row.counter("remapped_rows.failure", flag),
        retire_pending=row.counter("retired_pages.pending", flag),
        pcie_width=row.counter("pcie.link.width.current", integer),
        pcie_width_max=row.counter("pcie.link.width.max", integer),
        pcie_generation=row.counter("pcie.link.gen.current", integer),
        pcie_generation_max=row.counter("pcie.link.gen.max", integer),
        state=row.counter("pstate", words),
        needs_reset=needs_reset(row),
    )


GPUS = Probe(
    "gpus",
    on="gpu",
    command=query(_FIELDS),
    parse=parse_gpus,
    statuses=ENDS,
    planned_timeout=gpu_tool_seconds,
)


@dataclass(frozen=True)
class Repair:
    """The recovery action that the driver recommends for a GPU."""

    label: str
    needed: Text
    """`nothing`, or the driver's word: Reset, Reboot, Drain P2P, Drain and Reset."""
    is_in_guest: YesNo
    """Whether a virtual machine has the GPU: its driver does not see the slot."""
    memory: Mapping[str, YesNo]
    """States of memory repair that are due or exhausted, by name, and those that were not read; empty where the driver has none."""


_STATUS: Final = {"GPU Reset Status/Reset Required": "Reset", "GPU Reset Status/Drain and Reset Recommended": "Drain and Reset"}
"""Rows of `nvidia-smi -q` that are `Yes` where a reset is due; drivers before 560. Later ones report `GPU Recovery Action` alone."""
_ACTION: Final = "GPU Recovery Action"


def parse_repairs(text: str) -> GpuList[Repair]:
    """Return the recovery action of each GPU from `nvidia-smi -q`. Raise ValueError where it lists no GPU."""
    return read_long(text, _repair)


def _repair(row: Row) -> Repair:
    action = row.counter(_ACTION, words) if _ACTION in row.cells else None
    status = {path: row.counter(path, flag) for path in _STATUS if path in row.cells}
    wanted = [action] if isinstance(action, str) and action != "None" else []
    wanted += [_STATUS[path] for path, value in status.items() if value is True]
    wanted += ["Reset"] if needs_reset(row) and not wanted else []
    unread = [value for value in (action, *status.values()) if isinstance(value, UnreadableValue)]
    if not wanted and not status and _ACTION not in row.cells:
        unread = [row.unread(_ACTION)]
    needed: Text = ", ".join(wanted) if wanted else unread[0] if unread else "nothing"
    return Repair(row.subject, needed, row.read(_VIRTUALIZATION, _is_guest), _memory(row))


_MEMORY: Final = ("SRAM Threshold Exceeded", "Channel Repair Pending", "TPC Repair Pending", "Unrepairable Memory")
"""Rows of the section ECC Errors that are `Yes` where a GPU is replaced or reset (drivers from 550, 570 and 590 on). The threshold of
uncorrected SRAM errors is NVIDIA's criterion for a replacement (Xid Catalog, WORKFLOW_XID_48)."""


def _memory(row: Row) -> dict[str, YesNo]:
    found: dict[str, YesNo] = {}
    for path in row.cells:
        section, _, name = path.rpartition("/")
        if name in _MEMORY and section.startswith("ECC Errors"):
            value = row.counter(path, flag)
            if isinstance(value, UnreadableValue) or value:
                found[name] = value
    return found


_VIRTUALIZATION: Final = "GPU Virtualization Mode/Virtualization Mode"


def _is_guest(cell: str) -> bool:
    """Return whether a mode is that of a guest (nvidia-smi(1): Pass-Through, VGPU; None and Host VGPU on the machine itself)."""
    return cell.strip().lower() in ("pass-through", "vgpu")


REPAIRS = Probe("gpu-repairs", on="gpu", command="nvidia-smi -q 2>&1", parse=parse_repairs, statuses=ENDS, planned_timeout=gpu_tool_seconds)


@dataclass(frozen=True)
class Device:
    """A device file with its type and the numbers of its device."""

    path: str
    character: YesNo
    number: Text


_NULL: Final = "/dev/null"
"""A device that every node has. If stat does not list it, nothing is known of other devices."""


def list_devices(pattern: str) -> str:
    """Return the command that lists device files. stat exits with 1 where there are none."""
    return f"stat -c '%n|%F|%t:%T' {_NULL} {pattern} 2>/dev/null"


def parse_devices(text: str) -> tuple[Device, ...]:
    """Return the device files from lines `path|kind|major:minor` of stat, one of them /dev/null. Ignore a line without a path."""
    found = {row.cells["path"]: _device(row) for row in map(_device_row, lines_of(text)) if row.cells["path"].startswith("/dev/")}
    if found.pop(_NULL, None) is None:
        raise ValueError(f'stat does not list {_NULL}: "{quoted(text)}"')
    if is_cut(text) and found:
        path, device = found.popitem()
        found[path] = Device(path, UnreadableValue(f"{path} kind", None, lines_of(text)[-1]), device.number)
    return tuple(found.values())


def _device_row(line: str) -> Row:
    cells = dict(zip(("path", "kind", "number"), line.strip().split("|")))  # noqa: B905 - a line may be truncated
    return Row(cells["path"], cells, line)


def _device(row: Row) -> Device:
    return Device(row.subject, row.read("kind", _is_character), row.read("number", _device_number))


def _is_character(cell: str) -> bool:
    if not re.fullmatch(r"[a-z]+( [a-z]+)*", cell):
        raise ValueError(f'"{cell}" is not a kind of file')
    return cell == "character special file"


def _device_number(cell: str) -> str:
    if not re.fullmatch(r"[0-9a-f]+:[0-9a-f]+", cell):
        raise ValueError(f'"{cell}" is not a device number')
    return cell


DEVICES = Probe("gpu-devices", on="gpu", command=list_devices("/dev/nvidia[0-9]*"), parse=parse_devices, statuses=frozenset({0, 1}))


_NUMBER: Final = re.compile(r"/proc/driver/nvidia/gpus/([0-9a-fA-F]+:\S+)/information:Device Minor:\s+(\d+)\s*")


def parse_device_numbers(text: str) -> Lines[int]:
    """Return the number of each GPU's device file by its PCI address, as `pci_address` writes it. Raise ValueError where there is none.

    >>> parse_device_numbers("/proc/driver/nvidia/gpus/0000:4f:00.0/information:Device Minor: \\t 2\\n")
    {'0:4f:00.0': 2}
    """
    found = read_each_line(text, _device_of)
    if not found:
        raise ValueError(f'no GPU is listed: "{quoted(text)}"')
    return found


def _device_of(line: str) -> tuple[str, int]:
    cells = _NUMBER.fullmatch(line)
    if not cells:
        raise ValueError("not the device number of a GPU")
    return pci_address(cells[1]), int(cells[2])


def pci_address(bus: str) -> str:
    """Return a PCI address in one spelling: nvidia-smi writes 00000000:4F:00.0, the kernel 0000:4f:00.0. Raise ValueError for other text.

    >>> pci_address("00000000:4F:00.0"), pci_address("0000:4f:00.0")
    ('0:4f:00.0', '0:4f:00.0')
    """
    domain, _, rest = bus.lower().partition(":")
    return f"{int(domain, 16):x}:{rest}"


DEVICE_NUMBERS = Probe(
    "gpu-device-numbers",
    on="gpu_mixed",
    command="grep -H '^Device Minor:' /proc/driver/nvidia/gpus/*/information",
    parse=parse_device_numbers,
)
"""The driver numbers device files by itself, nvidia-smi numbers GPUs by PCI address: only the driver's files have both."""
