"""GPUs of every GPU node, compared with the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, is_absent, read_values
from rackwright.checks.cluster.probes.driver_errors import XIDS, Severity, errors_of
from rackwright.checks.cluster.probes.gpu import DEVICE_NUMBERS, DEVICES, GPUS, REPAIRS, Gpu, clock_faults, pci_address
from rackwright.checks.cluster.probes.mig import MIG, described
from rackwright.checks.cluster.probes.nvidia_smi import GpuList
from rackwright.errors import UndeterminedError

Fault = Any
"""Fault of a GPU as a text. UnreadableValue if a fault is possible but unknown; None or an empty text if there is none."""


def test_count_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A node that lost a GPU still answers SSH; Slurm notices only when a job starts."""
    expect(ask(GPUS).responding(node.gpus.count), node.gpus.count)


def test_product_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """Second-hand machines can contain a mix of GPU models. Where it is planned, Slurm allocates each model by its device files."""
    if not _others(node):
        expect({gpu.product for gpu in _listed(ask)}, {node.gpus.product})
        return
    found, planned = _products_by_device(ask), _planned_by_device(node.gpus)
    expect(found, {device: product for device, product in planned.items() if device in found})  # the count is another check's


def test_memory_matches_plan(node: Record, ask: Ask, expect: Expect, limit: float) -> None:
    """The same model is sold with more than one memory size. A GPU that shares the memory of its CPU reports none."""
    if _others(node):
        right = {one.product: one.memory_mib for one in (node.gpus, *_others(node))}
        expect(_faults(_listed(ask), lambda gpu: _other_size(gpu, right, limit), "memory"), {})
        return
    sizes = {gpu.memory_mib for gpu in _listed(ask)}
    if node.gpus.memory_mib is None:
        expect([size for size in sizes if not _has_none(size)], "any: the GPU shares the memory of the CPU", holds=True)
        return
    near = all(abs(size - node.gpus.memory_mib) <= limit * node.gpus.memory_mib for size in read_values(sizes))
    expect(sizes, f"{node.gpus.memory_mib} within {limit:.0%}", holds=near)


def test_driver_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A node with another driver breaks programs that were built for the other nodes."""
    expect({gpu.driver for gpu in _listed(ask)}, {node.gpus.driver})


def test_no_ecc_errors(ask: Ask, expect: Expect) -> None:
    """An uncorrected error has already killed a job; a part that had one has more."""
    expect(_faults(_listed(ask), lambda gpu: _unless(gpu.uncorrected, gpu.uncorrected)), {})


def test_no_memory_repair_is_due(ask: Ask, expect: Expect) -> None:
    """Rows or pages with uncorrectable errors stay in use until a reset; a GPU whose rows cannot be remapped is replaced.

    A corrupted infoROM keeps no record of such repairs. Beyond a number of uncorrected errors of its SRAM a GPU is replaced.
    """
    found: dict[str, Fault] = {f"GPU {place} infoROM": "corrupted" for place in ask(GPUS).corrupted}
    for about, of in _REPAIRS.items():
        found.update(_faults(_listed(ask), of, about))
    for repair in ask(REPAIRS) if not read_values(found.values()) else ():  # the long form is read only if the short form shows no fault
        found.update({f"{repair.label} {name}": value for name, value in repair.memory.items()})
    expect(found, {})


def test_no_reset_is_due(ask: Ask, expect: Expect) -> None:
    """A GPU that needs a reset refuses programs or gives wrong values, and the driver logs no XID error for all such states."""
    found = {gpu.label: "Reset" for gpu in _listed(ask) if gpu.needs_reset}
    if not found:  # the long form of nvidia-smi is read only if the short form shows no fault
        repairs = ask(REPAIRS)
        found = {
            repair.label: repair.needed for repair in repairs if isinstance(repair.needed, UnreadableValue) or repair.needed != "nothing"
        }
        found.update({f"GPUs, {number}": unread for number, unread in enumerate(repairs.unsure)})
    expect(found, {})


def test_pcie_links_are_full(ask: Ask, expect: Expect) -> None:
    """A card with fewer lanes or a lower rate than slot and card allow copies at a part of the speed.

    The rate counts for a GPU in performance state P0: below it the driver may lower rate and width of a link. In a virtual machine the
    driver does not see the slot: there, equal widths of all GPUs are those of the slots.
    """
    gpus = _listed(ask)
    found = _faults(gpus, _narrow, "lanes")
    if found and len({gpu.pcie_width for gpu in gpus if not isinstance(gpu.pcie_width, UnreadableValue)}) == 1:
        found = {} if all(repair.is_in_guest for repair in ask(REPAIRS)) else found
    found.update(_faults(gpus, _slow, "rate"))
    expect(found, {})


def test_no_xid_errors(ask: Ask, expect: Expect) -> None:
    """XID and SXid errors since boot that need a reset, a reboot or a replacement. XIDs that a user's program causes are ignored."""
    expect(errors_of(ask(XIDS), Severity.FAULT), [])


def test_no_xid_warnings(ask: Ask, expect: Expect) -> None:
    """XID errors since boot that jobs survive, and that precede worse ones: contained memory errors, many corrected errors, slow links."""
    expect(errors_of(ask(XIDS), Severity.WARNING, of_nvswitch=False), [])


def test_no_nvswitch_errors(ask: Ask, expect: Expect) -> None:
    """SXid errors since boot, also those that jobs survive: a link that replays packets is slow, and fails later."""
    errors = ask(XIDS)
    expect([text for severity in (Severity.FAULT, Severity.WARNING) for text in errors_of(errors, severity, of_nvswitch=True)], [])


def test_max_clocks_match(node: Record, ask: Ask, expect: Expect) -> None:
    """One GPU with a lower clock limit slows every job that uses all GPUs of the node, or of its model, to its speed."""
    if not _others(node):
        expect(_slower(_listed(ask)), {})
        return
    found: dict[str, Fault] = {}
    for product in {gpu.product for gpu in _listed(ask) if isinstance(gpu.product, str)}:
        found.update(_slower([gpu for gpu in _listed(ask) if isinstance(gpu.product, str) and gpu.product == product]))
    expect({**found, **{gpu.label: gpu.product for gpu in _listed(ask) if not isinstance(gpu.product, str)}}, {})


def test_not_throttled(ask: Ask, expect: Expect) -> None:
    """Heat or the power supply's brake signal makes a GPU slow. A healthy GPU at its power limit runs as fast as it can."""
    expect(_faults(_listed(ask), _throttled), {})


def test_persistence_mode_enabled(ask: Ask, expect: Expect) -> None:
    """Without persistence mode the first program of each job waits for GPU initialisation, and settings are lost between jobs."""
    expect(_faults(_listed(ask), lambda gpu: _unless(gpu.persistent, lambda persistent: "" if persistent else "off")), {})


def test_mig_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """The driver forgets instances at every boot: jobs that request one then fail, or get a whole GPU.

    The order of the GPUs is not compared: nvidia-smi numbers them by address, the plan by device file.
    """
    planned = sorted(described(tuple(one.profile for one in gpu)) for gpu in node.gpus.mig)
    found = [gpu if isinstance(gpu, UnreadableValue) else gpu.described for gpu in ask(MIG)]
    expect(sorted(found, key=str), planned)


def test_devices_are_distinct(node: Record, ask: Ask, expect: Expect) -> None:
    """Slurm assigns device files: each must be a device, and a different one."""
    devices = ask(DEVICES)
    for device in devices:
        if isinstance(device.character, UnreadableValue) or isinstance(device.number, UnreadableValue):
            raise UndeterminedError((device.character if isinstance(device.character, UnreadableValue) else device.number).why)
    numbers = {device.number for device in devices if device.character}
    expect(f"{len(numbers)} distinct devices in {len(devices)} files", f"{node.gpus.count} distinct devices in {node.gpus.count} files")


def _listed(ask: Ask) -> GpuList[Gpu]:
    """Return the GPUs of the node. Raise UndeterminedError where none is listed: a check of none would pass."""
    gpus: GpuList[Gpu] = ask(GPUS)
    if not len(gpus):
        raise UndeterminedError("nvidia-smi lists no GPU")
    return gpus


def _others(node: Record) -> Sequence[Record]:
    """Return the GPUs of other models in the plan of a node; the record lacks them where all are of one model."""
    others: Sequence[Record] = getattr(node.gpus, "others", ())
    return others


def _planned_by_device(gpus: Record) -> dict[str, str]:
    """Return the planned product of each device file."""
    planned = {f"/dev/nvidia{number}": gpus.product for number in range(gpus.count)}
    return {**planned, **{f"/dev/nvidia{number}": one.product for one in gpus.others for number in one.devices}}


def _products_by_device(ask: Ask) -> dict[str, Any]:
    """Return the product of each device file. A GPU whose device file was not read has an unknown one, under its label."""
    numbers, found = ask(DEVICE_NUMBERS), dict[str, Any]()
    for gpu in _listed(ask):
        number = _device_number(gpu.bus, numbers)
        known = number is not None and f"/dev/nvidia{number}" not in found
        found[f"/dev/nvidia{number}" if known else gpu.label] = (
            gpu.product if known else UnreadableValue(f"{gpu.label} device file", None, "")
        )
    return found


def _device_number(bus: Any, numbers: Mapping[str, int]) -> int | None:
    """Return the number of the device file of a GPU; None where its address was not read."""
    try:
        return numbers.get(pci_address(bus)) if isinstance(bus, str) else None
    except ValueError:
        return None


def _other_size(gpu: Any, right: Mapping[str, int | None], limit: float) -> Fault:
    """Return a text if the memory of a GPU is not that of its product; unknown for a product that is not planned."""
    if isinstance(gpu.product, UnreadableValue):
        return gpu.product
    if gpu.product not in right:
        return UnreadableValue(f"planned memory of {gpu.label}, {gpu.product},", None, "")
    size = right[gpu.product]
    if size is None or isinstance(gpu.memory_mib, UnreadableValue):
        return None if size is None else gpu.memory_mib
    wrong = abs(gpu.memory_mib - size) > limit * size
    return f"{gpu.memory_mib}; {gpu.product} has {size} within {limit:.0%}" if wrong else None


def _slower(gpus: Iterable[Any]) -> dict[str, Fault]:
    """Return the GPUs whose highest clock is below that of the fastest of them."""
    alike = list(gpus)
    fastest = max(read_values(gpu.max_clock_mhz for gpu in alike), default=0)
    return _faults(alike, lambda gpu: _less(gpu.max_clock_mhz, fastest, "{} MHz"))


def _has_none(size: object) -> bool:
    """Return whether nvidia-smi says that the GPU has no memory of its own."""
    return isinstance(size, UnreadableValue) and size.said is not None and is_absent(size.said)


def _faults(gpus: Iterable[Any], of: Callable[[Any], Fault], about: str = "") -> dict[str, Fault]:
    """Return the faults by GPU, or why they are unknown. GPUs without a fault are left out."""
    found = {}
    for gpu in gpus:
        fault = of(gpu)
        if isinstance(fault, UnreadableValue) or fault:
            found[" ".join(filter(None, (gpu.label, about))) if gpu.label not in found else f"{gpu.label} again"] = fault
    return found


def _unless(value: Any, fault: str | Callable[[Any], str]) -> Fault:
    """Return the fault that a value means; nothing for one that is false or that the hardware does not have."""
    if isinstance(value, UnreadableValue) or value is None:
        return value
    return fault(value) if callable(fault) else value and fault


def _less(value: float | UnreadableValue | None, most: float | UnreadableValue | None, words: str) -> Fault:
    """Return a text if a value is below its maximum; nothing if it is not, or if the hardware has no such value."""
    unread = [one for one in (value, most) if isinstance(one, UnreadableValue)]
    if unread or value is None or most is None:
        return unread[0] if unread else None
    return words.format(value, most) if value < most else None


def _throttled(gpu: Any) -> Fault:
    """Return the faults that hold a clock down; unknown for a reason of a newer driver."""
    if isinstance(gpu.clock_reasons, UnreadableValue):
        return gpu.clock_reasons
    try:
        return ", ".join(clock_faults(gpu.clock_reasons))
    except ValueError:
        return UnreadableValue(f"{gpu.label} reason for its clock", f"{gpu.clock_reasons:#x}", "")


def _narrow(gpu: Any) -> Fault:
    """Return a text if a link has fewer lanes than it can have; unknown for an idle GPU."""
    fault = _less(gpu.pcie_width, gpu.pcie_width_max, "x{} of x{}")
    if isinstance(fault, str) and isinstance(gpu.state, str) and gpu.state != "P0":
        subject = f"{gpu.label} width of the PCIe link, which the driver may reduce while the GPU is idle,"
        return UnreadableValue(subject, f"{fault} in {gpu.state}", "")
    return fault


def _slow(gpu: Any) -> Fault:
    """Return a text if a link is below its rate, for a GPU in the performance state in which the driver does not lower the rate."""
    if isinstance(gpu.state, UnreadableValue):
        return gpu.state
    return _less(gpu.pcie_generation, gpu.pcie_generation_max, "generation {} of {}") if gpu.state == "P0" else None


_REPAIRS = {
    "row remapping failed": lambda gpu: gpu.remap_failed,
    "row remapping is pending": lambda gpu: gpu.remap_pending,
    "page retirement is pending": lambda gpu: gpu.retire_pending,
}
