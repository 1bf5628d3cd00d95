"""Probes of the software of real GPUs: kernel modules, Fabric Manager, CUDA, NCCL and DCGM."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import GPU_TOOL_SECONDS, Probe
from rackwright.checks.cluster.harness.tool_output import Lines, Row, UnreadableValue, read_each_line, words
from rackwright.checks.cluster.probes.driver_errors import Severity, severity_of
from rackwright.checks.cluster.probes.nvidia_smi import ENDS, GpuList, read_long, unhealthy
from rackwright.checks.cluster.probes.units import parse_units


@dataclass(frozen=True)
class KernelDriver:
    """The loaded driver."""

    modules: str
    """`open` or `proprietary`."""
    version: str


def parse_driver(text: str) -> KernelDriver:
    """Return the driver from the first line of /proc/driver/nvidia/version.

    >>> parse_driver("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.173.02  Release Build")
    KernelDriver(modules='open', version='580.173.02')
    """
    found = re.search(r"^NVRM version: NVIDIA UNIX (Open )?.*Kernel Module.*?\s([0-9]+\.[0-9.]+)\s", text + "\n", re.MULTILINE)
    if found is None:
        raise ValueError("no line names the loaded modules")
    return KernelDriver("open" if found[1] else "proprietary", found[2])


KERNEL_DRIVER = Probe("driver-modules", on="gpu_software", command="cat /proc/driver/nvidia/version", parse=parse_driver)


def parse_loaded(text: str) -> Lines[str]:
    """Return the size of each loaded module by name from /proc/modules, which is never empty on a supported kernel."""
    modules = read_each_line(text, _module)
    if not modules:
        raise ValueError("no module is loaded")
    return modules


def _module(line: str) -> tuple[str, str]:
    name, size = line.split()[:2]
    if not size.isdigit():
        raise ValueError(line)
    return name, size


LOADED = Probe("kernel-modules", on="gpu_software", command="cat /proc/modules", parse=parse_loaded)


@dataclass(frozen=True)
class Fabric:
    """The NVLink fabric as one GPU reports it. None where the GPU reports no value, as GPUs before Hopper."""

    label: str
    state: str | UnreadableValue | None
    """Completed, In Progress, Not Started, Not Supported."""
    status: str | UnreadableValue | None
    """Success, or the error of a completed registration."""
    cluster: str | UnreadableValue | None
    """UUID of the NVLink domain, zeros where the GPU belongs to none; None where the driver does not report it."""
    health: Mapping[str, str | UnreadableValue]
    """Unhealthy rows of the section Health, by name; empty also where the driver has no such section."""


def parse_fabric(text: str) -> GpuList[Fabric]:
    """Return state, status and health of each GPU's NVLink fabric from `nvidia-smi -q`. Raise ValueError where it lists no GPU."""
    return read_long(text, _fabric)


def _fabric(row: Row) -> Fabric:
    domain = row.counter("Fabric/ClusterUUID", words) if "Fabric/ClusterUUID" in row.cells else None
    return Fabric(row.subject, row.counter("Fabric/State", words), row.counter("Fabric/Status", words), domain, unhealthy(row))


FABRIC = Probe("nvlink-fabric", on="nvswitch", command="nvidia-smi -q 2>&1", parse=parse_fabric, statuses=ENDS, timeout=GPU_TOOL_SECONDS)


def parse_fabric_manager(text: str) -> str:
    """Return the version of a line such as `Fabric Manager version is : 580.173.02`."""
    found = re.search(r"version is : ([0-9]+(?:\.[0-9]+)+)\s*$", text, re.MULTILINE)
    if found is None:
        raise ValueError("no version in the output")
    return found[1]


FABRIC_MANAGER = Probe("nvlink-manager", on="nvswitch", command="nv-fabricmanager --version", parse=parse_fabric_manager)


def parse_cuda(text: str) -> str:
    """Return the release from `nvcc --version`.

    >>> parse_cuda("Cuda compilation tools, release 13.0, V13.0.88")
    '13.0'
    """
    found = re.search(r"release ([0-9]+\.[0-9]+),", text)
    if found is None:
        raise ValueError("no release in the output")
    return found[1]


CUDA = Probe("cuda", on="gpu_software", command=". /etc/profile; PATH=$PATH:/usr/local/cuda/bin nvcc --version", parse=parse_cuda)


def parse_nccl(text: str) -> tuple[str, ...]:
    """Return the versions of the NCCL libraries that the linker finds, in its order, from real paths that end in `libnccl.so.2.28.9`.

    The first line is the one of `ldconfig -p` with the number of libraries.
    """
    counted, *lines = text.splitlines() or [""]
    if not re.match(r"[1-9]\d* ", counted):
        raise ValueError("ldconfig counted no libraries")
    found = tuple(line.rpartition("libnccl.so.")[2] for line in lines if line.strip())
    if not all(re.fullmatch(r"[0-9]+(\.[0-9]+)+", version) for version in found):
        raise ValueError("a library without a version")
    return found


NCCL = Probe(
    "nccl",
    on="gpu_software",
    command="l=$(ldconfig -p) && printf '%s\\n' \"$l\" | head -n 1 && printf '%s\\n' \"$l\" | "
    "sed -n 's|.*libnccl.so.2 .* => ||p' | xargs -r readlink -f",
    parse=parse_nccl,
)


def parse_settings(text: str) -> Mapping[str, str]:
    """Return the settings of /etc/nccl.conf. A line before them reports whether the file could be read."""
    first, *lines = text.splitlines()
    if first != "read":
        raise ValueError("the file could not be read")
    settings = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    return dict(line.split("=", 1) for line in settings)


NCCL_SETTINGS = Probe(
    "nccl-settings",
    on="gpu_software",
    command="[ ! -e /etc/nccl.conf ] && echo read || { echo read && cat /etc/nccl.conf; }",
    parse=parse_settings,
)


@dataclass(frozen=True)
class DcgmHealth:
    """The report of DCGM's health monitor."""

    overall: str
    """Healthy, Warning or Failure."""
    incidents: tuple[str, ...] = ()
    """Texts of the incidents, each with the remedy that DCGM prints after it."""


_OVERALL: Final = re.compile(r"\bOverall Health *[|:] *([A-Za-z]+)")
_WIDE: Final = re.compile(r"^\|(.*)\|([^|]*)\|$")
_LEVELS: Final = ("", "healthy", "warning", "failure")


def parse_health(text: str) -> DcgmHealth:
    """Return overall health and incidents from the table of `dcgmi health --check`. A text of several rows is one incident.

    >>> parse_health("| Overall Health | Warning |\\n| -> PCIe system | Warning |\\n| | 13 replays per |\\n| | minute |\\n")
    DcgmHealth(overall='Warning', incidents=('13 replays per minute',))
    """
    found = _OVERALL.search(text)
    if found is None:
        raise ValueError("no GPU health in the output")
    incidents, continues = list[str](), False
    for line in text.splitlines():
        row = _WIDE.match(line.strip())
        if row is None:
            continue
        name, cell = row[1].strip(), row[2].strip()
        if name or cell.lower() in _LEVELS:
            continues = False
        elif continues:
            incidents[-1] += f" {cell}"
        else:
            incidents.append(cell)
            continues = True
    return DcgmHealth(found[1], tuple(incidents))


_MISSING: Final = frozenset({126, 127})
"""Exit statuses of a shell whose command cannot be run (POSIX, Shell Command Language, 2.8.2)."""
DCGM_HEALTH = Probe(
    "dcgm-health",
    on="gpu_software",
    command="dcgmi health --group 0 --check",
    parse=parse_health,
    statuses=frozenset(range(256)) - _MISSING,  # releases differ in the status after a report of incidents
)

_IMEX_NOT_READY: Final = re.compile(r"(GPU \d+ )?IMEX daemon status is -?\d+ \(not READY\)", re.IGNORECASE)
_LINK_DOWN: Final = re.compile(r"(?:GPU )?(\d+)'s NvLink link (\d+) is currently down", re.IGNORECASE)
_POWER_LIMIT: Final = re.compile(r"Detected (?:clocks event|clock throttling) due to power violation in GPU \d+\.?", re.IGNORECASE)
"""Incident of a GPU that was at its power limit within the last minute, as every busy one is (DCGM 3.1 to 4.6, MonitorPower;
NVIDIA/DCGM issue 285)."""
_PAST_LINK_ERRORS: Final = re.compile(
    r"Detected \d+ datalink layer (?:CRC|recovery|replay) error counter NvLink errors on GPU \d+'s NVLink \(should be 0\)\.?", re.IGNORECASE
)
"""Incident of a GPU before Blackwell whose link corrected one error since the driver was loaded. An incident of its own reports more than
100 errors per second (DCGM 4.6, MonitorNVLinkErrorFields; aws/eks-node-monitoring-agent pull request 261: healthy H100 nodes)."""
_REMEDIES: Final = re.compile(
    r"run a field diagnostic on the GPU|please consult the documentation for details of this XID|"
    r"check IMEX installation, configuration, domain and daemon status, and network connectivity|"
    r"check the IMEX daemon[^.]*|check DCGM and system logs[^.]*|Monitor the power conditions|This GPU can still perform workload|\bGPU\b",
    re.IGNORECASE,
)
_XID: Final = re.compile(r"Detected XID (\d+) for GPU \d+", re.IGNORECASE)
_NUMBERS_OF_LINKS: Final = frozenset({2, 4, 6, 12, 18})
"""NVLinks of a GPU, by generation (NVIDIA, data sheets: 2 or 4 of RTX cards and P100, 6 of V100, 12 of A100, 18 from H100 on)."""


def faults_of(health: DcgmHealth, *, has_nvlink: bool) -> tuple[str, ...]:
    """Return the incidents that are faults of this node.

    DCGM reports a missing IMEX daemon also where none belongs, the links of cards without a bridge as down, XIDs of users' programs
    (DCGM 4.4), GPUs at their power limit, and errors that a link corrected at any time.
    """
    return tuple(text for text in health.incidents if not _is_by_design(text, has_nvlink))


_HARMLESS: Final = (Severity.PROGRAM, Severity.NOTE)


def _is_by_design(text: str, has_nvlink: bool) -> bool:
    links: dict[str, set[int]] = {}
    for gpu, link in _LINK_DOWN.findall(text):
        links.setdefault(gpu, set()).add(int(link))
    unbridged = all(found == set(range(len(found))) and len(found) in _NUMBERS_OF_LINKS for found in links.values())
    text = _XID.sub(lambda found: "" if severity_of(int(found[1])) in _HARMLESS else found[0], text)
    for harmless in (_IMEX_NOT_READY, _POWER_LIMIT, _PAST_LINK_ERRORS):
        text = harmless.sub("", text)
    rest = _LINK_DOWN.sub("", text) if not has_nvlink and unbridged else text
    return not re.search(r"[A-Za-z0-9]", _REMEDIES.sub("", rest))


LIBRARIES: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
"""Libraries of the driver that every program loads (NVIDIA driver README, Installed Components)."""
LOADS: Final = "loads"


def parse_libraries(text: str) -> Lines[str]:
    """Return `loads`, or the error of the dynamic linker, by library from lines `name|text`."""
    found = read_each_line(text, _library)
    if not found:
        raise ValueError("no library is listed")
    return found


def _library(line: str) -> tuple[str, str]:
    name, text = line.strip().split("|", 1)
    if name not in LIBRARIES or not text:
        raise ValueError(line)
    return name, text


_LOAD: Final = (
    "import ctypes\n"
    f"for name in {LIBRARIES!r}:\n"
    f"    try:\n        ctypes.CDLL(name)\n        print(name + '|{LOADS}')\n"
    "    except OSError as error:\n        print(name + '|' + ' '.join(str(error).split()))\n"
)
DRIVER_LIBRARIES = Probe("driver-libraries", on="gpu_software", command=f"python3 -c {shlex.quote(_LOAD)}", parse=parse_libraries)

RACK_FABRIC = Probe(
    "rack-fabric", on="nvlink_rack", command="nvidia-smi -q 2>&1", parse=parse_fabric, statuses=ENDS, timeout=GPU_TOOL_SECONDS
)
IMEX: Final = "nvidia-imex.service"
RACK_UNITS = Probe(
    "rack-units",
    on="nvlink_rack",
    command=f"systemctl show --property=Id,LoadState,ActiveState,UnitFileState {IMEX}",
    parse=parse_units,
)
