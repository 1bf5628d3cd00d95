"""The declared software stack as versions and package names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rackwright import catalog
from rackwright.catalog import compatibility
from rackwright.catalog.rocm import rocm_releases
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.base import ConfigModel
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Gpus, counts_by_model
from rackwright.model.node.software import GpuDirect, GpuModules


class SoftwareSet(ConfigModel):
    """The packages of GPU nodes with one operating system and one flavour of kernel modules."""

    repository: str | None
    """Folder in NVIDIA's CUDA repository; None where no package comes from there."""
    repository_arm64: str | None
    """The same for nodes with arm64 processors; None also where NVIDIA has no such folder."""
    key: str | None
    """File in that folder with its signing key."""
    driver_vendor: str
    """Packager of the driver: nvidia, canonical or debian."""
    modules: GpuModules
    packages: Mapping[str, tuple[str, ...]]
    """Package names by component; empty where the profile has none. See catalog.compatibility.packages."""


class PlannedRocm(ConfigModel):
    """ROCm on nodes with GPUs of AMD."""

    version: str
    driver: str
    """Folder of the driver's release in AMD's repository."""
    driver_package: str
    """Pattern of the version of the driver's package."""


class SoftwareStack(ConfigModel):
    """GPU software of nodes."""

    profile: str
    versions: Mapping[str, str]
    """Versions by component; `nccl-cuda` is the CUDA release that NCCL is built for."""
    package_sets: Mapping[str, SoftwareSet]
    """By `<operating system>-<flavour of the kernel modules>`."""
    gpudirect: GpuDirect
    nccl: Mapping[str, str]
    """Lines of /etc/nccl.conf."""
    rocm: PlannedRocm | None = None


def driver_version(cluster: Cluster) -> str:
    """Return the expected driver version of GPU nodes."""
    declared = cluster.software
    if declared is None:
        return catalog.software("nvidia-driver")
    return compatibility.resolve(compatibility.profiles()[declared.profile], declared.versions)["driver"]


def modules(cluster: Cluster, gpus: Gpus) -> GpuModules:
    """Return the flavour of the driver's kernel modules for a node's GPUs."""
    asked = cluster.software.kernel_modules if cluster.software else None
    return asked or compatibility.common_modules([catalog.gpus()[model] for model in counts_by_model(gpus)])[0]


def expand_software(cluster: Cluster, declared_nodes: Iterable[DeclaredNode]) -> SoftwareStack | None:
    """Return the software of a cluster; None where the stack file declares none."""
    declared = cluster.software
    if declared is None:
        return None
    profile = compatibility.profiles()[declared.profile]
    versions = compatibility.resolve(profile, declared.versions)
    kinds = {
        (cluster.target.os_of(node.name), modules(cluster, node.gpus))
        for node in declared_nodes
        if node.gpus and catalog.gpus()[node.gpus.model].vendor == catalog.NVIDIA
    }
    flavours = {flavour for _, flavour in kinds} or {GpuModules.OPEN}
    direct = GpuDirect.DMA_BUF if flavours == {GpuModules.OPEN} else GpuDirect.OFF
    return SoftwareStack(
        profile=profile.name,
        versions=dict(sorted(versions.items())),
        package_sets={f"{os}-{flavour}": _set(profile, versions, os, flavour) for os, flavour in sorted(kinds)},
        gpudirect=declared.gpudirect or direct,
        nccl=dict(sorted(declared.nccl.environment.items())),
        rocm=_rocm(declared.rocm.version) if declared.rocm else None,
    )


def _rocm(version: str) -> PlannedRocm:
    release = rocm_releases()[version]
    return PlannedRocm(version=version, driver=release.driver, driver_package=release.driver_package)


def _set(profile: compatibility.Profile, versions: Mapping[str, str], os: str, flavour: GpuModules) -> SoftwareSet:
    system, archive = compatibility.systems()[os], profile.driver_vendor == "debian"
    return SoftwareSet(
        repository=None if archive else system.nvidia,
        repository_arm64=None if archive else system.nvidia_arm64,
        key=None if archive else system.key,
        driver_vendor=profile.driver_vendor,
        modules=flavour,
        packages=compatibility.packages(profile, versions, system, flavour),
    )
