"""Compatible versions and their package names: the rows of compatibility.yml and packages.yml. Independent of any cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.catalog import GpuModel, site, version_key
from rackwright.model.node.software import GpuModules
from rackwright.yaml_loader import load_yaml

_FOLDER: Final = Path(__file__).parent
UNSUFFIXED: Final = 590
"""From this branch on, NVIDIA's package names of drivers contain no branch (NVIDIA Driver Installation Guide, 2026-09-30)."""
UNSUFFIXED_IMEX: Final = 580
"""From this branch on, the package of IMEX has no branch in its name (NVIDIA gpu-driver-container, Amazon Linux 2023 AMI packages)."""
ARM64: Final = "arm64"
_LARGEST_NODE: Final = 16
"""Number of GPUs that NVLink joins in the largest node: HGX-2 with 16 (NVIDIA: DGX-2 data sheet)."""
NVSWITCH_GPUS: Final = 8
"""Number of GPUs on a baseboard with NVSwitch; fewer GPUs are connected directly, or are part of a baseboard that a hypervisor divides."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A generation of GPUs, with the drivers and compilers that support it."""

    name: str
    modules: tuple[GpuModules, ...]
    """Variants of the kernel modules that support it, the preferred one first."""
    driver_first: int
    """First driver branch that supports it."""
    driver_last: int | None
    """Last driver branch that supports it; None while all do."""
    cuda_first: str
    cuda_last: str | None
    nccl_first: str | None = None
    """First NCCL with code for it; None where no release of today lacks it."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch."""

    number: int
    kind: str
    ends: date | None
    """Last day of its support; None if the support ended before the catalogue was written."""
    cuda: int
    """Highest CUDA major version that it runs without a compatibility package."""

    def has_ended(self, today: date) -> bool:
        """Return whether the branch is out of support."""
        return self.ends is None or self.ends < today


@dataclass(frozen=True, slots=True)
class System:
    """An operating system that the roles support."""

    name: str
    family: str
    kernel: str
    slurm: str | None
    """Release of Slurm that is installed there; None if no source was found."""
    nvidia: str
    """Folder in NVIDIA's CUDA repository."""
    nvidia_arm64: str | None
    """The same for arm64 (SBSA); None if NVIDIA does not support the system there."""
    key: str
    """File in that folder with the signing key."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of compatible versions."""

    name: str
    purpose: str
    driver_vendor: str
    """Packager of the driver: nvidia, canonical or debian."""
    systems: tuple[str, ...]
    versions: Mapping[str, str]

    def supports(self, os: str, architecture: str) -> bool:
        """Return whether its packager has packages for a system on a processor architecture. Debian has all of them for both."""
        known = systems().get(os)
        return architecture != ARM64 or self.driver_vendor == "debian" or (known is not None and known.nvidia_arm64 is not None)


@dataclass(frozen=True, slots=True)
class EfaConflict:
    """Installers of EFA that do not work with something else. Conditions that are None always hold."""

    before: str
    """First installer that works."""
    reason: str
    known: bool
    """Whether the fault is known; False for a pair that was not tested."""
    nccl: tuple[str | None, str | None] | None
    """First and last release of NCCL."""
    driver: int | None
    """First driver branch."""
    os: str | None
    architecture: str | None
    family: str | None
    """Family of instance types."""
    gpus: bool
    """Whether only nodes with GPUs are concerned."""


@dataclass(frozen=True, slots=True)
class Advice:
    """An outdated recommendation of other guides, and its replacement."""

    name: str
    reason: str
    instead: str
    when: str = "always"


@cache
def _tables(name: str = "compatibility") -> dict[str, dict[Any, dict[str, Any]]]:
    loaded: dict[str, dict[Any, dict[str, Any]]] = load_yaml((_FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    return loaded


@cache
def _product_architectures() -> Mapping[str, Architecture]:
    return {
        name: Architecture(
            name,
            tuple(map(GpuModules, row["modules"])),
            row["driver_first"],
            row["driver_last"],
            row["cuda_first"],
            row["cuda_last"],
            row.get("nccl_first"),
        )
        for name, row in _tables()["architectures"].items()
    }


def architectures() -> Mapping[str, Architecture]:
    """Return all generations, the product's from the oldest on, then the site's."""
    return _architectures(site.catalog())


@cache
def _architectures(of_site: site.SiteCatalog) -> Mapping[str, Architecture]:
    return {
        **_product_architectures(),
        **{
            name: Architecture(
                name, tuple(map(GpuModules, row.kernel_modules)), row.driver_first, row.driver_last, row.cuda_first, row.cuda_last
            )
            for name, row in of_site.rows.architectures.items()
        },
    }


@cache
def _product_branches() -> Mapping[int, Branch]:
    return {number: Branch(number, row["kind"], row["ends"], row["cuda"]) for number, row in _tables()["driver_branches"].items()}


def branches() -> Mapping[int, Branch]:
    """Return all driver branches by number: the product's and the site's."""
    return _branches(site.catalog())


@cache
def _branches(of_site: site.SiteCatalog) -> Mapping[int, Branch]:
    added = of_site.rows.driver_branches
    return {**{int(number): Branch(int(number), row.kind, row.ends, row.cuda) for number, row in added.items()}, **_product_branches()}


@cache
def systems() -> Mapping[str, System]:
    """Return all operating systems by name."""
    return {
        name: System(name, row["family"], row["kernel"], row["slurm"], row["nvidia"], row["nvidia_arm64"], row["key"])
        for name, row in _tables()["systems"].items()
    }


@cache
def profiles() -> Mapping[str, Profile]:
    """Return all profiles, in the order in which they are proposed."""
    return {
        name: Profile(name, row["for"], row["driver_vendor"], tuple(row["systems"]), row["versions"])
        for name, row in _tables()["profiles"].items()
    }


@cache
def outdated() -> Mapping[str, Advice]:
    """Return components that guides still recommend, but that are obsolete."""
    return {name: Advice(name, row["reason"], row["instead"]) for name, row in _tables()["outdated"].items()}


@cache
def nccl_variables() -> Mapping[str, Advice]:
    """Return variables of NCCL that guides still set, by name or by prefix (`NCCL_IB_*`)."""
    return {name: Advice(name, row["reason"], row["instead"], row["when"]) for name, row in _tables()["nccl_variables"].items()}


@cache
def efa_conflicts() -> tuple[EfaConflict, ...]:
    """Return the installers of EFA that do not work with a release, a system or an instance type."""
    return tuple(
        EfaConflict(
            row["before"],
            row["reason"],
            row["known"],
            tuple(row["nccl"]) if "nccl" in row else None,
            row.get("driver"),
            row.get("os"),
            row.get("architecture"),
            row.get("family"),
            row.get("gpus", False),
        )
        for row in _tables()["efa_installers"].values()
    )


def names(table: str) -> frozenset[str]:
    """Return the names of the product's rows in a table that a site can extend."""
    return frozenset(map(str, _tables()[table]))


def components() -> frozenset[str]:
    """Return all components that a stack may pin."""
    return frozenset({"fabric-manager", "nccl-cuda", "slurm"}).union(*(profile.versions for profile in profiles().values()))


def driver_for(cuda_major: int) -> int | None:
    """Return the oldest driver branch that runs programs of a CUDA major version; None for an unknown one."""
    row = _tables()["cuda"].get(cuda_major)
    added = site.catalog().rows.cuda.get(str(cuda_major))
    return row["driver_minimum"] if row else added.driver_minimum if added else None


def cuda_first(gpu: GpuModel) -> str:
    """Return the first CUDA release that supports a GPU: that of its compute capability, else that of its architecture."""
    row = _tables()["compute_capabilities"].get(gpu.compute_capability)
    first: str = row["cuda_first"] if row else architectures()[gpu.architecture].cuda_first
    return first


def requirement(name: str) -> str:
    """Return the oldest version of one component that another one requires."""
    minimum: str = _tables()["requirements"][name]["minimum"]
    return minimum


def major(version: str) -> int:
    """Return the first number of a version: the branch of a driver, the major version of CUDA.

    >>> major("580.173.02")
    580
    """
    return version_key(version)[0]


def modules_of(gpu: GpuModel, requested: GpuModules | None) -> GpuModules:
    """Return the variant of the kernel modules for a GPU: the requested one, else open if the GPU supports it."""
    return requested or supported_modules(gpu)[0]


def supported_modules(gpu: GpuModel) -> tuple[GpuModules, ...]:
    """Return the variants of the kernel modules that support a GPU, the preferred one first."""
    return (GpuModules(gpu.modules),) if gpu.modules else architectures()[gpu.architecture].modules


def common_modules(gpus: Sequence[GpuModel]) -> tuple[GpuModules, ...]:
    """Return the variants of the kernel modules that support all these GPUs, in the order of the first; empty if there is none."""
    first, *others = (supported_modules(gpu) for gpu in gpus)
    return tuple(flavour for flavour in first if all(flavour in able for able in others))


def has_nvswitch(gpu: GpuModel, count: int) -> bool:
    """Return whether the node's GPUs are connected by NVSwitch."""
    return gpu.nvswitch and count >= NVSWITCH_GPUS


def has_nvlink_rack(gpu: GpuModel) -> bool:
    """Return whether the GPU's NVSwitches are in trays of its rack (GB200 and GB300 NVL72), so that NVLink joins GPUs of several nodes.

    Other GPUs with NVLink and without NVSwitch are joined directly: P100, V100, boards of four (HGX H100 4-GPU, GB200 NVL4).
    """
    return gpu.nvlink and not gpu.nvswitch and (gpu.nvlink_domain or 0) > _LARGEST_NODE


def resolve(profile: Profile, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the version of every component: the pinned one, else the profile's.

    Fabric Manager has the version of the driver, and `nccl-cuda` is the CUDA release that NCCL's packages are built for.
    """
    known = {name: version for name, version in pins.items() if name in components()}
    versions = {**profile.versions, **known}
    return {"fabric-manager": versions["driver"], "nccl-cuda": versions["cuda"], **versions}


def packages(profile: Profile, versions: Mapping[str, str], system: System, gpu_modules: GpuModules) -> dict[str, tuple[str, ...]]:
    """Return package names by component, for the system's package manager.

    `per-kernel` are names to which the running kernel's release is appended; `pinning` is installed first and holds the others at their
    version (on Rocky Linux it is the module stream).
    """
    rows = _tables("packages")
    driver = rows["driver"][f"{profile.driver_vendor}-{system.family}"]
    libraries = rows["libraries"][_libraries(profile, system)]
    words = _words(versions, gpu_modules)
    named = {
        "per-kernel": driver["per-kernel"],
        "pinning": driver["pinning"],
        "driver": driver[gpu_modules],
        "fabric-manager": driver["fabric-manager"],
        "imex": driver["imex"],
        **{name: libraries[name] for name in ("cuda", "cudnn", "nccl", "dcgm", "container-toolkit")},
    }
    return {component: tuple(name.format(**words) for name in names) for component, names in named.items()}


def _libraries(profile: Profile, system: System) -> str:
    if profile.driver_vendor == "debian":
        return "debian-deb"
    return "nvidia-rpm" if system.family == "rocky" else "nvidia-deb"


def _words(versions: Mapping[str, str], gpu_modules: GpuModules) -> dict[str, str]:
    """Return the values of the placeholders in compatibility.yml."""
    branch, cuda = major(versions["driver"]), versions["cuda"]
    known = branches().get(branch)
    return {
        **{name.replace("-", "_"): version for name, version in versions.items()},
        "branch": str(branch),
        "suffix": f"-{branch}" if branch < UNSUFFIXED else "",
        "imex_suffix": f"-{branch}" if branch < UNSUFFIXED_IMEX else "",
        "flavour": "-open" if gpu_modules is GpuModules.OPEN else "",
        "stream": "-open" if gpu_modules is GpuModules.OPEN else "-dkms",
        "cuda_major": str(major(cuda)),
        "cuda_dashed": "-".join(cuda.split(".")[:2]),
        "nccl_cuda": versions["nccl-cuda"],
        "driver_cuda": str(known.cuda if known else major(cuda)),
    }
