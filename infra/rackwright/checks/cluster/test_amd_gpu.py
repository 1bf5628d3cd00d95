"""AMD Instinct GPUs of every node that has them, compared with the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rackwright import catalog
from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, read_values
from rackwright.checks.cluster.probes.amd_device_files import AMD_DEVICES, ROCM
from rackwright.checks.cluster.probes.amd_driver_errors import AMD_ERRORS
from rackwright.checks.cluster.probes.amd_gpu import (
    AMD_GPUS,
    AMD_LINKS,
    AMD_METRICS,
    AMD_PAGES,
    AMD_PCI,
    CORRECTED,
    THERMAL,
    TOTAL,
    AmdGpu,
    responding,
)
from rackwright.checks.cluster.probes.driver_errors import Severity, errors_of
from rackwright.checks.cluster.probes.nvidia_smi import GpuList
from rackwright.errors import UndeterminedError

Fault = Any
"""Fault of a GPU as a text. UnreadableValue if a fault is possible but unknown; None or an empty text if there is none."""
DRIVER = "amdgpu"
FIRST_RENDER_NODE = 128
"""Number of the first render node (Linux, drm_minor.c), and of the first GPU in gres.conf (roles/slurm_controller)."""


def test_count_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A node that lost a GPU still answers SSH; Slurm notices only when a job starts. Each die of an MI250 is a GPU."""
    expect(responding(ask(AMD_GPUS), ask(AMD_PCI), node.gpus.count), node.gpus.count)


def test_driver_is_bound(node: Record, ask: Ask, expect: Expect) -> None:
    """The driver leaves a GPU whose firmware does not start; another driver may have bound one that a virtual machine had."""
    found: dict[str, Any] = {gpu.label: "none" if gpu.driver is None else gpu.driver for gpu in ask(AMD_PCI)}
    expect(found or {"GPUs on the PCI bus": 0}, dict.fromkeys(found, DRIVER) or {"GPUs on the PCI bus": node.gpus.count})


def test_product_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """Second-hand machines can contain a mix of GPU models. The PCI device id identifies a model: its name differs between releases."""
    gpus = _listed(ask(AMD_GPUS))
    expect({*(_product(gpu, node.gpus) for gpu in gpus), *_unread_end(gpus).values()}, {node.gpus.product})


def test_memory_matches_plan(node: Record, ask: Ask, expect: Expect, limit: float) -> None:
    """A GPU in a partition mode other than SPX and NPS1 shows a part of its memory. One that shares its CPU's memory shows any size."""
    gpus = _listed(ask(AMD_GPUS))
    sizes = {*(_known(gpu.memory_mib, gpu, "memory") for gpu in gpus), *_unread_end(gpus).values()}
    if node.gpus.memory_mib is None:
        expect([], "any: the GPU shares the memory of the CPU", holds=True)
        return
    near = all(abs(size - node.gpus.memory_mib) <= limit * node.gpus.memory_mib for size in read_values(sizes))
    expect(sizes, f"{node.gpus.memory_mib} within {limit:.0%}", holds=near)


def test_partition_mode_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """The plan counts whole GPUs, which is the driver's default: in another mode jobs get parts of a GPU, or slower memory.

    Source: AMD Instinct MI300X GPU Partitioning (2025). MI200 has no modes, and those of a virtual function are its hypervisor's.
    """
    present = ask(AMD_PCI)
    if not present:
        raise UndeterminedError("no GPU is on the PCI bus")
    has_modes = catalog.gpus()[node.gpus.model].architecture != "cdna2"
    own = [gpu for gpu in present if isinstance(gpu.device, UnreadableValue) or gpu.device not in _virtual_devices()]
    found = {
        f"{gpu.label} {name}": _known(mode, gpu, name)
        for gpu in own
        for name, mode in (("compute mode", gpu.compute_mode), ("memory mode", gpu.memory_mode))
        if has_modes
    }
    expect(found, {name: "SPX" if name.endswith("compute mode") else "NPS1" for name in found})


def test_no_ecc_errors(ask: Ask, expect: Expect) -> None:
    """An uncorrectable error has already killed a job. Deferred errors are those of pages, which `no_bad_pages_are_due` judges."""
    shared = _shared(ask)
    expect(_faults(_listed(ask(AMD_METRICS)), lambda gpu: _known(gpu.uncorrected, gpu, "uncorrectable ECC errors", shared)), {})


def test_corrected_errors_within_limit(ask: Ask, expect: Expect) -> None:
    """A part that corrects many errors since its driver was loaded is likely to have an uncorrectable one. A few are normal."""
    shared = _shared(ask)
    expect(_faults(_listed(ask(AMD_METRICS)), lambda gpu: _too_many_corrected(gpu, shared)), {})


def test_no_bad_pages_are_due(ask: Ask, expect: Expect) -> None:
    """Pages with uncorrectable errors stay in use until a reset."""
    pages, shared = _listed(ask(AMD_PAGES)), _shared(ask)
    found = _faults(pages, lambda gpu: _known(gpu.pending, gpu, "pending pages", shared), "pages pending")
    found.update(_faults(pages, lambda gpu: _known(gpu.unreservable, gpu, "unreservable pages", shared), "pages in use"))
    expect(found, {})


def test_retired_pages_within_limit(ask: Ask, expect: Expect) -> None:
    """A GPU with more retired pages than its firmware's threshold is replaced. amd-smi compares them from ROCm 7.0 on."""
    expect(_faults(_listed(ask(AMD_GPUS)), lambda gpu: _if(gpu.pages_exceeded, "more than the threshold"), "retired pages"), {})


def test_no_driver_errors(ask: Ask, expect: Expect) -> None:
    """Errors in the kernel log since boot that need a reset, a reboot or a replacement, as a GPU that hangs and whose reset failed.

    A reset of the GPU that succeeded ends those before it, apart from errors that only a replacement ends.
    """
    expect(errors_of(ask(AMD_ERRORS), Severity.FAULT), [])


def test_no_driver_warnings(ask: Ask, expect: Expect) -> None:
    """Errors in the kernel log since boot that the GPU survived, and that precede worse ones: uncorrectable errors before a reset, heat."""
    expect(errors_of(ask(AMD_ERRORS), Severity.WARNING), [])


def test_pcie_links_are_full(node: Record, ask: Ask, expect: Expect) -> None:
    """A GPU with fewer lanes or a lower rate copies at a part of the speed. Links of Instinct GPUs stay at full rate while idle.

    Source: AMD, Instinct system acceptance, PCIe link status (2026). amd-smi knows the rate of the GPU, not that of an older slot.
    """
    metrics, most = _listed(ask(AMD_METRICS)), {gpu.label: gpu for gpu in _listed(ask(AMD_GPUS))}
    without = frozenset(most) if catalog.gpus()[node.gpus.model].pcie is None else _shared(ask)
    found: dict[str, Fault] = _unread_end(metrics)
    for gpu in metrics:
        own = most.get(gpu.label)
        width = _less(gpu, gpu.pcie_width, own and own.pcie_width_max, "x{:g} of x{:g}", without)
        rate = _less(gpu, gpu.pcie_rate, own and own.pcie_rate_max, "{:g} of {:g} GT/s", without)
        found.update({f"{gpu.label} {about}": fault for about, fault in (("lanes", width), ("rate", rate)) if fault is not None})
    expect(found, {})


def test_xgmi_links_are_up(node: Record, ask: Ask, expect: Expect) -> None:
    """Programs on several GPUs of a node move their data over these links; over PCIe they run at a part of the speed."""
    links, shared = _listed(ask(AMD_LINKS)), _shared(ask)
    found = {f"{gpu.label} {place}": fault for gpu in links for place, fault in _link_faults(gpu, node.gpus.count - 1, shared)}
    expect(found | _unread_end(links), {})


def test_no_xgmi_errors(ask: Ask, expect: Expect) -> None:
    """Errors of a link since the counter was read last. Only MI200 has this counter."""
    expect(_faults(_listed(ask(AMD_METRICS)), _xgmi_errors), {})


def test_not_throttled(ask: Ask, expect: Expect) -> None:
    """Heat makes a GPU slow. A healthy GPU at its power limit runs as fast as it can."""
    shared = _shared(ask)
    expect(_faults(_listed(ask(AMD_METRICS)), lambda gpu: _throttled(gpu, shared)), {})


def test_devices_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """Programs of users open /dev/kfd and the render node of each GPU, which Slurm assigns; jobs get no others."""
    devices = {device.path: device for device in ask(AMD_DEVICES)}
    planned = ["/dev/kfd", *(f"/dev/dri/renderD{FIRST_RENDER_NODE + number}" for number in range(node.gpus.count))]
    damaged = [UnreadableValue("a device file", None, path) for path in devices if not path.startswith("/dev/")]
    found: dict[str, Fault] = {
        path: _device_fault(devices[path]) if path in devices else damaged[0] if damaged else "missing" for path in planned
    }
    numbers = [devices[path].number for path in planned if path in devices]
    twice = {number for number in read_values(numbers) if read_values(numbers).count(number) > 1}
    found.update({f"device {number}": "under several names" for number in twice})
    expect({path: fault for path, fault in found.items() if fault is not None}, {})


def test_rocm_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Programs that were built for another release of ROCm do not find their libraries."""
    expect(ask(ROCM), cluster.software.rocm.version)


def _listed(gpus: GpuList[Any]) -> GpuList[Any]:
    """Return the GPUs. Raise UndeterminedError where none is listed: a check of none would pass."""
    if not len(gpus):
        raise UndeterminedError(f'amd-smi lists no GPU: "{gpus.failure}"' if gpus.failure else "amd-smi lists no GPU")
    return gpus


def _product(gpu: AmdGpu, planned: Record) -> str | UnreadableValue:
    """Return the planned product if the device id is one of the model's, else the product of the id, else the name that is printed."""
    if isinstance(gpu.device, UnreadableValue):
        return gpu.device
    models = [model for one in catalog.amd_devices() if one.device == gpu.device for model in one.models]
    if planned.model in models:
        return str(planned.product)
    return " or ".join(catalog.gpus()[model].product for model in models) or gpu.product


def _shared(ask: Ask) -> frozenset[str]:
    """Return the labels of GPUs that a hypervisor shares: their driver does not report ECC, pages, links and clocks."""
    ids = _virtual_devices()
    try:
        return frozenset(gpu.label for gpu in ask(AMD_GPUS) if isinstance(gpu.device, int) and gpu.device in ids)
    except UndeterminedError:  # faults that other outputs show remain faults
        return frozenset()


def _virtual_devices() -> frozenset[int]:
    """Return the PCI device ids of virtual functions."""
    return frozenset(one.device for one in catalog.amd_devices() if one.virtual)


def _known(value: Any, gpu: Any, name: str, without: Iterable[str] = ()) -> Any:
    """Return a value. N/A is unknown: amd-smi prints it for values that it could not read, too. GPUs of `without` have no such value."""
    if gpu.label in without:
        return None if isinstance(value, UnreadableValue) and value.said is None else value
    return UnreadableValue(f"{gpu.label} {name}", "N/A", "") if value is None else value


def _if(value: Any, fault: str) -> Fault:
    """Return the fault that a value means; nothing for one that is false or that this release does not print."""
    return value if value is None or isinstance(value, UnreadableValue) else value and fault


def _too_many_corrected(gpu: Any, shared: Iterable[str]) -> Fault:
    """Return the blocks with as many corrected errors as their limit, or more. A block with N/A counts none; a total does."""
    counts = {
        block: _known(count, gpu, "corrected ECC errors", shared) if block == TOTAL else count for block, count in gpu.corrected.items()
    }
    limits = {**CORRECTED, TOTAL: max(CORRECTED.values())}
    known = {block: count for block, count in counts.items() if isinstance(count, int)}
    over = [f"{block} {count} (limit {limits[block]})" for block, count in known.items() if count >= limits[block]]
    return ", ".join(over) or next((count for count in counts.values() if isinstance(count, UnreadableValue)), None)


def _unread_end(gpus: GpuList[Any]) -> dict[str, Fault]:
    """Return why a list may lack GPUs, whose faults are unknown; nothing if it is complete."""
    return {} if gpus.cut is None else {"GPUs that are not listed": gpus.cut}


def _faults(gpus: GpuList[Any], of: Callable[[Any], Fault], about: str = "") -> dict[str, Fault]:
    """Return the faults by GPU, or why they are unknown. GPUs without a fault are left out."""
    found = _unread_end(gpus)
    for gpu in gpus:
        fault = of(gpu)
        if isinstance(fault, UnreadableValue) or fault:
            name = " ".join(filter(None, (gpu.label, about)))
            found[name if name not in found else f"{name} again"] = fault
    return found


def _less(gpu: Any, value: Any, most: Any, words: str, without: Iterable[str]) -> Fault:
    """Return a text if a value is below its maximum; None if it is not, or if the GPU has no such value."""
    for one in (value, most):
        known = _known(one, gpu, "PCIe link", without)
        if known is None or isinstance(known, UnreadableValue):
            return known
    return words.format(value, most) if value < most else None


def _link_faults(gpu: Any, planned: int, shared: Iterable[str]) -> Iterator[tuple[str, Fault]]:
    """Yield the faults of a GPU's links: those that are down, and those that are missing to the planned number.

    Until ROCm 7.0 the list has one state per port, of which unused ones are disabled (X) or N/A; later one per GPU, with SELF for its own.
    """
    states = {place: state for place, state in gpu.states.items() if isinstance(state, UnreadableValue) or state != "SELF"}
    per_gpu = len(states) < len(gpu.states)
    up = sum(isinstance(state, str) and "U" in state for state in states.values())
    found: dict[str, Fault] = {}
    for place, state in states.items():
        if isinstance(state, UnreadableValue) or (state is None and up < planned):
            found[f"link {place}"] = _known(state, gpu, f"link {place}", shared)
        elif state is not None and ("D" in state or (per_gpu and "X" in state)):
            found[f"link {place}"] = "down" if "D" in state else "disabled"
    yield from ((place, fault) for place, fault in found.items() if fault is not None)
    if up < planned and not found:
        yield "links", f"{up} of {planned} up"


def _xgmi_errors(gpu: Any) -> Fault:
    """Return the state of the error counter, unless it shows none."""
    if gpu.xgmi_errors is None or isinstance(gpu.xgmi_errors, UnreadableValue):
        return gpu.xgmi_errors
    return None if "NO_ERROR" in gpu.xgmi_errors.upper().replace(" ", "_") else gpu.xgmi_errors


def _throttled(gpu: Any, shared: Iterable[str]) -> Fault:
    """Return what heat does to a GPU. Without a reason, a lower clock may be that of a GPU at its power limit: it is unknown."""
    active = [THERMAL[name] for name, value in gpu.violations.items() if not isinstance(value, UnreadableValue) and value]
    unread = [value for value in gpu.violations.values() if isinstance(value, UnreadableValue)]
    if active or unread:
        return ", ".join(active) or unread[0]
    if any(value is not None for value in gpu.violations.values()):
        return None
    state = _known(gpu.throttled, gpu, "reasons for its clock", shared)
    if state is None or isinstance(state, UnreadableValue):
        return state
    return None if state.upper() == "UNTHROTTLED" else UnreadableValue(f"{gpu.label} reason for its lower clock", state, "")


def _device_fault(device: Any) -> Fault:
    """Return what keeps programs of users from a device."""
    for value in (device.kind, device.mode, device.group, device.number):
        if isinstance(value, UnreadableValue):
            return value
    if device.kind != "character special file":
        return device.kind
    if device.driver is not None and (isinstance(device.driver, UnreadableValue) or device.driver != DRIVER):
        return device.driver if isinstance(device.driver, UnreadableValue) else f"driver {device.driver}"
    for_all, for_group = (int(device.mode, 8) >> bits & 6 == 6 for bits in (0, 3))
    return None if for_all or (for_group and device.group == "render") else f"access {device.mode} of group {device.group}"
