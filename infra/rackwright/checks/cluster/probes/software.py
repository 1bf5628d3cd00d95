"""Probes of the software of real GPUs: kernel modules, Fabric Manager, CUDA, NCCL and DCGM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Row, UnreadableValue, words
from rackwright.checks.cluster.probes.nvidia_smi import ENDS, GpuList, read_long, unhealthy


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


def parse_loaded(text: str) -> frozenset[str]:
    """Return the names of /proc/modules, which is never empty on a supported kernel."""
    names = frozenset(line.split()[0] for line in text.splitlines() if line.split()[1].isdigit())
    if not names:
        raise ValueError("no module is loaded")
    return names


LOADED = Probe("kernel-modules", on="gpu_software", command="cat /proc/modules", parse=parse_loaded)


@dataclass(frozen=True)
class Fabric:
    """The NVLink fabric as one GPU reports it. None where the GPU reports no value, as GPUs before Hopper."""

    label: str
    state: str | UnreadableValue | None
    """Completed, In Progress, Not Started, Not Supported."""
    status: str | UnreadableValue | None
    """Success, or the error of a completed registration."""
    health: Mapping[str, str | UnreadableValue]
    """Unhealthy rows of the section Health, by name; empty also where the driver has no such section."""


def parse_fabric(text: str) -> GpuList[Fabric]:
    """Return state, status and health of each GPU's NVLink fabric from `nvidia-smi -q`. Raise ValueError where it lists no GPU."""
    return read_long(text, _fabric)


def _fabric(row: Row) -> Fabric:
    return Fabric(row.subject, row.counter("Fabric/State", words), row.counter("Fabric/Status", words), unhealthy(row))


FABRIC = Probe("nvlink-fabric", on="nvswitch", command="nvidia-smi -q 2>&1", parse=parse_fabric, statuses=ENDS)


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


def parse_health(text: str) -> str:
    """Return the overall health from the table of `dcgmi health --check`."""
    found = re.search(r"^\| *Overall Health *\| *(\S.*?) *\|$", text, re.MULTILINE)
    if found is None:
        raise ValueError("no GPU health in the output")
    return found[1]


DCGM_HEALTH = Probe("dcgm-health", on="gpu_software", command="dcgmi health --group 0 --check", parse=parse_health)
