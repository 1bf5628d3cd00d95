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
"""The vendor whose GPUs the roles and the checks support."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU, as named by its driver."""

    model: str
    vendor: str
    """nvidia or amd."""
    product: str
    memory_mib: int
    power_watts: int | None
    """None if no source was found."""
    architecture: str
    """Row of compatibility.yml."""
    nvswitch: bool
    """Whether eight GPUs are connected by NVSwitch, so that programs need Fabric Manager."""
    nvlink: bool
    """Whether the listed model has NVLink (NVIDIA, data sheets); a bridge between PCIe cards does not count."""
    driver_minimum: str | None
    """Oldest driver that supports the model; None if no source was found."""


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
    added = site.catalog().rows.gpus
    if not added:
        return _product_gpus()
    return {**{model: _site_gpu(model, row) for model, row in added.items()}, **_product_gpus()}


@cache
def _product_gpus() -> Mapping[str, GpuModel]:
    return {
        row["model"]: GpuModel(
            model=row["model"],
            vendor=row["vendor"],
            product=row["product"],
            memory_mib=int(row["memory_mib"]),
            power_watts=int(row["power_watts"]) if row["power_watts"] else None,
            architecture=row["architecture"],
            nvswitch=row["nvswitch"] == "yes",
            nvlink=row["nvlink"] == "yes",
            driver_minimum=row["driver_minimum"] or None,
        )
        for row in rows("gpus")
    }


def _site_gpu(model: str, row: site.SiteGpu) -> GpuModel:
    return GpuModel(
        model=model,
        vendor=NVIDIA,
        product=row.product,
        memory_mib=row.memory_mib,
        power_watts=row.power_watts,
        architecture=row.architecture,
        nvswitch=row.nvswitch,
        nvlink=row.nvlink,
        driver_minimum=row.driver_minimum,
    )


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
