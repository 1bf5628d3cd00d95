"""Facts as data files next to this module, each row with its source and date. Independent of any cluster."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from rackwright.catalog import site

_FOLDER: Final = Path(__file__).parent
NVIDIA: Final = "nvidia"
AMD: Final = "amd"
"""Vendors of GPUs."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU, as named by its driver."""

    model: str
    vendor: str
    """nvidia or amd."""
    product: str
    memory_mib: int | None
    """None for a GPU that shares the memory of its CPU: nvidia-smi reports [N/A], amd-smi a size that depends on settings."""
    power_watts: int | None
    """None if no source was found."""
    architecture: str
    """Row of compatibility.yml."""
    compute_capability: str | None
    """For example 10.3 (NVIDIA: CUDA GPU Compute Capability); None for GPUs of AMD, and where a site's row has none."""
    pcie: str | None
    """Generation and lanes of its PCIe link (NVIDIA and AMD, data sheets); None where the CPU is on the same module."""
    nvswitch: bool
    """Whether eight GPUs are connected by NVSwitch, so that programs need Fabric Manager."""
    nvlink: bool
    """Whether the listed model has NVLink (NVIDIA, data sheets); a bridge between PCIe cards does not count."""
    nvlink_domain: int | None
    """Number of GPUs that NVLink joins: at most those of a node, or those of a rack (NVIDIA, data sheets). None without NVLink."""
    xgmi: bool
    """Whether XGMI links join each GPU of a node to all others (AMD, CDNA 3 and CDNA 4 white papers). Links of MI200 join some, and their
    driver does not report their states."""
    host: str | None
    """Processor architecture of all nodes with this GPU, for example arm64 for Grace; None if it is a card for any of them."""
    modules: str | None
    """The only variant of kernel modules that supports it, where its architecture has others, too (Grace Hopper: open)."""
    driver_minimum: str | None
    """Oldest driver that supports the model; None if no source was found."""


@dataclass(frozen=True, slots=True)
class AmdDevice:
    """A PCI device id of a GPU of AMD."""

    device: int
    models: tuple[str, ...]
    """Rows of gpus.csv: MI250 and MI250X have one id in common."""
    virtual: bool
    """Whether it is a virtual function, with which a hypervisor shares the GPU."""


@dataclass(frozen=True, slots=True)
class PortRange:
    """TCP ports that a service of the cluster listens on."""

    first: int
    last: int
    service: str


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of one data file, as text."""
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def gpus() -> Mapping[str, GpuModel]:
    """Return all known GPUs by model: the product's and the site's."""
    return _gpus(site.catalog())


@cache
def _gpus(of_site: site.SiteCatalog) -> Mapping[str, GpuModel]:
    return {**{model: _site_gpu(model, row) for model, row in of_site.rows.gpus.items()}, **_product_gpus()}


@cache
def _product_gpus() -> Mapping[str, GpuModel]:
    return {
        row["model"]: GpuModel(
            model=row["model"],
            vendor=row["vendor"],
            product=row["product"],
            memory_mib=int(row["memory_mib"]) if row["memory_mib"] else None,
            power_watts=int(row["power_watts"]) if row["power_watts"] else None,
            architecture=row["architecture"],
            compute_capability=row["compute_capability"] or None,
            pcie=row["pcie"] or None,
            nvswitch=row["nvswitch"] == "yes",
            nvlink=row["nvlink"] == "yes",
            nvlink_domain=int(row["nvlink_domain"]) if row["nvlink_domain"] else None,
            xgmi=row["xgmi"] == "yes",
            host=row["host"] or None,
            modules=row["modules"] or None,
            driver_minimum=row["driver_minimum"] or None,
        )
        for row in rows("gpus")
    }


def _site_gpu(model: str, row: site.SiteGpu) -> GpuModel:
    return GpuModel(
        model=model,
        vendor=NVIDIA,
        xgmi=False,
        **row.model_dump(exclude={"source", "date", "mig", "kernel_modules"}),
        modules=row.kernel_modules,
    )


@cache
def amd_devices() -> tuple[AmdDevice, ...]:
    """Return the PCI device ids of the GPUs of AMD."""
    return tuple(AmdDevice(int(row["device"], 16), tuple(row["models"].split()), row["virtual"] == "yes") for row in rows("amd_devices"))


@cache
def software(name: str) -> str:
    """Return the default version of a piece of software."""
    versions = {row["name"]: row["version"] for row in rows("software")}
    return versions[name]


@cache
def ports() -> tuple[PortRange, ...]:
    """Return the ports that services of the cluster occupy."""
    return tuple(PortRange(int(row["first"]), int(row["last"]), row["service"]) for row in rows("service_ports"))


@cache
def accounts() -> Mapping[str, bool]:
    """Return user and group names that already exist on nodes, and whether members of the group can become root."""
    return {row["name"]: row["gives_root"] == "yes" for row in rows("accounts")}


@cache
def system_folders() -> Mapping[str, bool]:
    """Return folders that must not be used as mount points, and whether this includes all folders below them."""
    return {row["path"]: row["also_below"] == "yes" for row in rows("system_folders")}


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key for a dotted version.

    >>> version_key("570.133.20") < version_key("580")
    True
    """
    return tuple(int(part) for part in version.split("."))
