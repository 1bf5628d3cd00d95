"""Facts as data files beside this module, each row with its source and date. Nothing here knows a cluster."""

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
    """A GPU as its driver names it."""

    model: str
    vendor: str
    """nvidia or amd."""
    product: str
    memory_mib: int
    power_watts: int | None
    """None where no source was found."""
    architecture: str
    """Row of compatibility.yml."""
    nvswitch: bool
    """Whether eight of them are joined by NVSwitch, so that nothing runs before Fabric Manager does."""
    nvlink: bool
    """Whether the model as it is listed has NVLink (NVIDIA, data sheets); a bridge between PCIe cards is not."""
    driver_minimum: str | None
    """Oldest driver that knows it; None where no source was found."""


@dataclass(frozen=True, slots=True)
class PortRange:
    """TCP ports a service of the cluster listens on."""

    first: int
    last: int
    service: str


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one data file, as text."""
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def gpus() -> Mapping[str, GpuModel]:
    """All known GPUs by model: the product's, and the site's beside them."""
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
    """The version of a piece of software that stacks get by default."""
    versions = {row["name"]: row["version"] for row in rows("software")}
    return versions[name]


@cache
def ports() -> tuple[PortRange, ...]:
    """Ports that services of the cluster occupy."""
    return tuple(PortRange(int(row["first"]), int(row["last"]), row["service"]) for row in rows("ports"))


@cache
def accounts() -> Mapping[str, bool]:
    """User and group names that exist on nodes already, and whether being in the group is being root."""
    return {row["name"]: row["gives_root"] == "yes" for row in rows("accounts")}


@cache
def system_folders() -> Mapping[str, bool]:
    """Folders that nothing may be mounted over, and whether that holds for all below them."""
    return {row["path"]: row["also_below"] == "yes" for row in rows("system_folders")}


def version_key(version: str) -> tuple[int, ...]:
    """A dotted version in the order of its numbers.

    >>> version_key("570.133.20") < version_key("580")
    True
    """
    return tuple(int(part) for part in version.split("."))
