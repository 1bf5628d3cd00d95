"""Probes of AMD Instinct GPUs: what amd-smi reports of them, and their PCI devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rackwright.checks.cluster.harness.probe import GPU_TOOL_SECONDS, Probe
from rackwright.checks.cluster.harness.tool_output import (
    Row,
    UnreadableValue,
    decimal,
    flag,
    hexadecimal,
    integer,
    is_absent,
    is_cut,
    lines_of,
    quoted,
    words,
)
from rackwright.checks.cluster.probes.amd_smi import ENDS, below, counter, first_of, quantity, read_gpus
from rackwright.checks.cluster.probes.nvidia_smi import GpuList

Whole: TypeAlias = int | UnreadableValue
Number: TypeAlias = float | UnreadableValue
Text: TypeAlias = str | UnreadableValue
YesNo: TypeAlias = bool | UnreadableValue


def _amd_smi(words: str) -> str:
    """Return the command that runs amd-smi, which AMD's packages may install outside of the path."""
    return f"PATH=$PATH:/opt/rocm/bin amd-smi {words} --json 2>&1"


_ROCM_SMI: Final = "PATH=$PATH:/opt/rocm/bin rocm-smi --showid --showproductname --showbus --showmeminfo vram --json 2>&1"
"""Distributions and ROCm before 6.0 have rocm-smi alone. Its JSON has neither ECC errors nor pages (ROCm, issue 4374)."""


@dataclass(frozen=True)
class AmdGpu:
    """One GPU, or one die of an MI250, as `amd-smi static` describes it. None where amd-smi prints no value."""

    index: Whole
    label: str
    product: Text
    """Name from the tables of libdrm or of the PCI IDs: it differs between releases, and may be cut."""
    device: Whole
    """PCI device id, which identifies the model."""
    bus: Text
    """PCI address."""
    memory_mib: Whole | None
    driver: Text | None
    """Name of the kernel's driver."""
    pcie_width_max: Whole | None
    pcie_rate_max: Number | None
    """GT/s per lane, of the GPU alone: amd-smi does not know the slot."""
    pages_exceeded: YesNo | None
    """Whether more memory pages are retired than AMD's threshold for a replacement; None before ROCm 7.0."""


def _address(cell: str) -> str:
    text = cell.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", text):
        raise ValueError(f'"{cell}" is not a PCI address')
    return text


def unix_name(cell: str) -> str:
    """Return the name of a driver or of a group. Raises ValueError for other text."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", cell.strip()) or is_absent(cell):
        raise ValueError(f'"{cell}" is not a name')
    return cell.strip()


def _device_id(cell: str) -> int:
    return hexadecimal(cell) if cell.strip().lower().startswith("0x") else integer(cell)


def _lanes(cell: str) -> int:
    """Return the lanes of a link. Zero means that the driver does not know them."""
    if integer(cell) <= 0:
        raise ValueError(f'"{cell}" is not a number of lanes')
    return integer(cell)


def _rate(cell: str) -> float:
    if decimal(cell) <= 0:
        raise ValueError(f'"{cell}" is not a rate')
    return decimal(cell)


_THRESHOLD: Final = "ras/bad_page_threshold"


def _gpu(row: Row) -> AmdGpu:
    return AmdGpu(
        index=row.read("gpu", integer),
        label=row.subject,
        product=row.read("asic/market_name", words),
        device=row.read("asic/device_id", _device_id),
        bus=row.read("bus/bdf", _address),
        memory_mib=quantity(row, first_of(row, "vram/size", "vram/vram_size_mb"), integer, "MB"),
        driver=counter(row, first_of(row, "driver/name", "driver/driver_name"), words),
        pcie_width_max=counter(row, first_of(row, "bus/max_pcie_width", "bus/max_pcie_lanes"), _lanes),
        pcie_rate_max=quantity(row, "bus/max_pcie_speed", _rate, "GT/s"),
        pages_exceeded=counter(row, f"{_THRESHOLD}_exceeded", flag) if {_THRESHOLD, f"{_THRESHOLD}_exceeded"} & set(row.cells) else None,
    )


def parse_amd_gpus(text: str) -> GpuList[AmdGpu]:
    """Return the GPUs of `amd-smi static --json`. Raise ValueError where it describes none."""
    return read_gpus(text, _gpu)


AMD_GPUS = Probe(
    "amd-gpus",
    on="amd_gpu",
    command=f"o=$({_amd_smi('static')}); s=$?; [ $s != 127 ] || {{ o=$({_ROCM_SMI}); s=$?; }}; printf '%s\\n' \"$o\"; exit $s",
    parse=parse_amd_gpus,
    timeout=GPU_TOOL_SECONDS,
    statuses=ENDS,
)

THERMAL: Final = {
    "prochot": "processor hot",
    "socket_thermal": "heat of the socket",
    "vr_thermal": "heat of the voltage regulators",
    "hbm_thermal": "heat of the memory",
}
"""Violations that slow a GPU because of heat (amdsmi.h of ROCm 6.3, amdsmi_violation_status_t). `ppt` is left out: a healthy GPU is at its
power limit during any large product of matrices; `low_utilization` and `gfx_clk_below_host_limit` follow from the others or the load."""


CORRECTED: Final = {"UMC": 100, "GFX": 50, "XGMI_WAFL": 10}
"""Number of corrected ECC errors from which a block of a GPU counts as faulty: memory, compute units, links (Oracle, oci-hpc, rule
node_amd_ecc_correctable_ok of playbooks/roles/prometheus/files/recording_rules.yml, 2026). AMD names no number."""
TOTAL: Final = "total"


@dataclass(frozen=True)
class AmdMetrics:
    """State of one GPU as `amd-smi metric` reports it. None where amd-smi prints N/A."""

    index: Whole
    label: str
    uncorrected: Whole | None
    """Uncorrectable ECC errors since the driver was loaded."""
    corrected: Mapping[str, Whole | None]
    """Corrected ECC errors since the driver was loaded, by block of `CORRECTED`; by `total` where no block is counted."""
    pcie_width: Whole | None
    pcie_rate: Number | None
    """GT/s per lane."""
    violations: Mapping[str, YesNo | None]
    """By key of `THERMAL`: whether the violation is active. All None before ROCm 6.3, and on MI200."""
    throttled: Text | None
    """THROTTLED or UNTHROTTLED, without a reason; None from MI300 on."""
    xgmi_errors: Text | None
    """State of the error counter of the XGMI links; None from MI300 on."""


def _metrics(row: Row) -> AmdMetrics:
    return AmdMetrics(
        index=row.read("gpu", integer),
        label=row.subject,
        uncorrected=counter(row, first_of(row, "ecc/total_uncorrectable_count", "ecc/total_uncorrectable"), integer),
        corrected=_corrected(row),
        pcie_width=counter(row, first_of(row, "pcie/width", "pcie/current_lanes"), _lanes),
        pcie_rate=quantity(row, first_of(row, "pcie/speed", "pcie/current_speed"), _rate, "GT/s"),
        violations={name: _violation(row, f"throttle/{name}_violation_status") for name in THERMAL},
        throttled=counter(row, "power/throttle_status", words),
        xgmi_errors=counter(row, "xgmi_err", words),
    )


def _corrected(row: Row) -> dict[str, Whole | None]:
    """Return the corrected errors by block; their total in releases and on virtual functions that count no blocks."""
    paths = {block: f"ecc_blocks/{block}/correctable_count" for block in CORRECTED}
    blocks = {block: row.counter(path, integer) for block, path in paths.items() if path in row.cells}
    if any(count is not None for count in blocks.values()):
        return blocks
    return {TOTAL: counter(row, first_of(row, "ecc/total_correctable_count", "ecc/total_correctable"), integer)}


def _violation(row: Row, name: str) -> YesNo | None:
    """Return whether a violation is active on a GPU or on a part of it; None where this release or hardware does not report it."""
    cells = below(row, name)
    if not cells:
        return row.unread(name) if any(path.endswith("_violation_status") for path in below(row, "throttle")) else None
    found = [row.counter(path, flag) for path in cells if not path.endswith("/unit")]
    unread = [one for one in found if isinstance(one, UnreadableValue)]
    read = [one for one in found if isinstance(one, bool)]
    return True if any(read) else unread[0] if unread else False if read else None


def parse_amd_metrics(text: str) -> GpuList[AmdMetrics]:
    """Return the GPUs of `amd-smi metric --json`. Raise ValueError where it describes none."""
    return read_gpus(text, _metrics)


# The tool samples the violations of each GPU for 100 ms (amdsmi_get_violation_status, ROCm 6.3).
AMD_METRICS = Probe(
    "amd-metrics", on="amd_gpu", command=_amd_smi("metric"), parse=parse_amd_metrics, timeout=GPU_TOOL_SECONDS, statuses=ENDS
)


@dataclass(frozen=True)
class AmdPages:
    """Memory pages with uncorrectable errors of one GPU. None where amd-smi prints N/A."""

    index: Whole
    label: str
    pending: Whole | None
    """Pages that the driver retires with the next reset."""
    unreservable: Whole | None
    """Pages that the driver could not retire, because they were in use."""


def _pages(row: Row) -> AmdPages:
    return AmdPages(row.read("gpu", integer), row.subject, _count(row, "pending"), _count(row, "un_res"))


def _count(row: Row, name: str) -> Whole | None:
    """Return the number of pages in a list, which is a single object for one page, and a sentence for none."""
    cell = row.cells.get(name)
    if cell is not None:
        none_found = name not in row.unreliable and (cell == "[]" or cell.lower().startswith("no bad pages"))
        return 0 if none_found else None if name not in row.unreliable and is_absent(cell) else row.unread(name)
    return len([path for path in below(row, name) if path.endswith("/page_address")]) or row.unread(name)


def parse_amd_pages(text: str) -> GpuList[AmdPages]:
    """Return the GPUs of `amd-smi bad-pages --json`. Raise ValueError where it describes none."""
    return read_gpus(text, _pages)


AMD_PAGES = Probe("amd-pages", on="amd_gpu", command=_amd_smi("bad-pages"), parse=parse_amd_pages, timeout=GPU_TOOL_SECONDS, statuses=ENDS)


@dataclass(frozen=True)
class AmdLinks:
    """XGMI links of one GPU: their states by the number of the GPU at the other end."""

    index: Whole
    label: str
    states: Mapping[str, Text | None]
    """U up, D down, X disabled (amdsmi_cli, subcommand xgmi); several joined by slashes, SELF, or None for N/A."""


def _links(row: Row) -> AmdLinks:
    cells = below(row, "link_status")
    states = {path.rpartition("/")[2]: row.counter(path, _link_state) for path in cells if path != "link_status"}
    if "link_status" in cells or not cells:  # one N/A in place of the list, or no list
        states = {"any": None if is_absent(cells.get("link_status", "")) else row.unread("link_status")}
    return AmdLinks(row.read("gpu", integer), row.subject, states)


def _link_state(cell: str) -> str:
    if not re.fullmatch(r"SELF|[UDX](/[UDX])*", cell.strip().upper()):
        raise ValueError(f'"{cell}" is not a state of a link')
    return cell.strip().upper()


def parse_amd_links(text: str) -> GpuList[AmdLinks]:
    """Return the links of `amd-smi xgmi -l --json`. Raise ValueError where it describes no GPU."""
    return read_gpus(text, _links)


AMD_LINKS = Probe("amd-links", on="amd_xgmi", command=_amd_smi("xgmi -l"), parse=parse_amd_links, timeout=GPU_TOOL_SECONDS, statuses=ENDS)


@dataclass(frozen=True)
class PciGpu:
    """A GPU of AMD on the PCI bus, whether or not a driver uses it."""

    bus: Text
    device: Whole
    driver: Text | None
    """Driver that is bound to it; None without one."""
    compute_mode: Text | None = None
    """Compute partition mode: SPX is the whole GPU; None where its driver has no such modes, as before MI300."""
    memory_mode: Text | None = None
    """Memory partition mode, NPS and the number of partitions; None where its driver has no such modes."""

    @property
    def label(self) -> str:
        """Return the name of the GPU in results."""
        return f"PCI device {self.bus}"


_BUS: Final = "/sys/bus/pci/devices"
_PCI_COMMAND: Final = (
    f"for d in {_BUS}/*; do v= c= i=; read -r v < $d/vendor; read -r c < $d/class; read -r i < $d/device; "
    "case $v$c in 0x10020x1200*|0x10020x0380*) k=$(readlink $d/driver); o=; for f in compute memory; do f=$d/current_${f}_partition; "
    '[ -e $f ] && o="$o$(head -n 1 $f)|" || o="${o}N/A|"; done; echo "${d##*/}|$i|${k##*/}|$o";; esac; done 2> /dev/null; '
    f"echo {_BUS}"
)
"""Vendor AMD/ATI with class processing accelerator (MI300) or display controller without VGA (MI200): PCI IDs, and lspci of such nodes.
Partition modes: amdgpu, files current_compute_partition and current_memory_partition of a device."""


def parse_amd_pci(text: str) -> tuple[PciGpu, ...]:
    """Return the GPUs from lines `address|device|driver|SPX|NPS1|`, which the name of the folder ends. Ignore other lines."""
    lines = lines_of(text)
    if _BUS not in lines or is_cut(text):
        raise ValueError(f'the list of {_BUS} is incomplete: "{quoted(text)}"')
    rows = [_pci_row(line) for line in lines if "|" in line]
    return tuple(dict.fromkeys(_pci_gpu(row) for row in rows))


def _pci_row(line: str) -> Row:
    cells = dict(zip(("bus", "device", "driver", "compute", "memory"), line.strip().split("|")))  # noqa: B905 - the line ends with a separator
    return Row(f"PCI device {cells['bus']}", cells, line)


def _pci_gpu(row: Row) -> PciGpu:
    driver = None if row.cells.get("driver") == "" else row.read("driver", unix_name)
    return PciGpu(
        row.read("bus", _address), row.read("device", hexadecimal), driver, row.counter("compute", _compute), row.counter("memory", _memory)
    )


def _compute(cell: str) -> str:
    """Return a compute partition mode (amdgpu_gfx.h, amdgpu_gfx_compute_mode_desc). The driver prints UNKNOWN if it cannot tell."""
    if cell.strip() not in ("SPX", "DPX", "TPX", "QPX", "CPX"):
        raise ValueError(f'"{cell}" is not a compute partition mode')
    return cell.strip()


def _memory(cell: str) -> str:
    """Return a memory partition mode (amdgpu_gmc.c, nps_desc)."""
    if not re.fullmatch(r"NPS\d", cell.strip()):
        raise ValueError(f'"{cell}" is not a memory partition mode')
    return cell.strip()


AMD_PCI = Probe("amd-pci", on="amd_gpu", command=_PCI_COMMAND, parse=parse_amd_pci)


def responding(listed: GpuList[AmdGpu], present: Iterable[PciGpu], planned: int) -> object:
    """Return the number of GPUs that respond, with the addresses of those on the PCI bus that amd-smi does not list.

    An address that was not read may be that of a GPU that is listed, or of one that is not.
    """
    present = tuple(present)
    known = {gpu.bus for gpu in listed if isinstance(gpu.bus, str)}
    unread = len(listed) - len(known)
    missing = [gpu.bus for gpu in present if isinstance(gpu.bus, str) and gpu.bus not in known]
    lost = [] if listed.cut is not None else missing if not unread else ["a GPU whose address was not read"] * (len(missing) - unread)
    doubt = [gpu.bus for gpu in present if isinstance(gpu.bus, UnreadableValue)] if len(present) > len(listed) else []
    return doubt[0] if doubt and not lost and len(listed) == planned else replace(listed, lost=tuple(lost)).responding(planned)
