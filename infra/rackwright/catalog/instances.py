"""EC2 instance types: hardware, prices and purchase options. `make update-catalog` updates the hardware."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from rackwright.catalog import rows, site


class UsageClass(StrEnum):
    """Purchase option of an instance (SupportedUsageClasses of DescribeInstanceTypes)."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"


class QuotaFamily(StrEnum):
    """Types that share a vCPU quota of an account and region (`rackwright.catalog.quotas` has the codes)."""

    STANDARD = "standard"
    G_AND_VT = "g-and-vt"
    P = "p"
    INF = "inf"
    TRN = "trn"
    HPC = "hpc"


@dataclass(frozen=True, slots=True)
class Price:
    """On-demand price of Linux on shared hardware."""

    usd_per_hour: float
    region: str
    source: str
    date: datetime.date


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An EC2 instance type, as returned by DescribeInstanceTypes."""

    name: str
    architecture: str
    """`x86_64` or `arm64`."""
    cpus: int
    """vCPUs as sold: threads if the type has them, else cores."""
    cores: int
    memory_mib: int
    """Memory stated by EC2; the operating system reports less."""
    gpu_model: str | None
    """Row of gpus.csv."""
    gpu_count: int
    neuron_devices: int
    """Number of Inferentia and Trainium devices."""
    efa_interfaces: int
    """Maximum number of EFA interfaces, one per card; 0 without EFA."""
    network_cards: int
    interfaces_per_card: int
    primary_card_takes_efa: bool
    """False with EFA interfaces > 0: card 0 is ENA only and EFA begins at card 1 (p6-b300)."""
    gbps: float
    """Bandwidth of all cards together; small types reach it in bursts only (`Up to …`)."""
    nvme_gb: int
    """Instance storage, decimal GB."""
    usage_classes: frozenset[UsageClass]
    cluster_placement: bool
    """Whether it can be launched in a cluster placement group."""
    regions: frozenset[str]
    """Regions that sold it at the date of the row; AWS adds regions and rarely removes one."""
    price: Price | None
    """None if no price has a source."""
    source: str
    date: datetime.date

    @property
    def family(self) -> str:
        """Return the name without the size: `p6-b300`."""
        return self.name.partition(".")[0]

    @property
    def usd_per_hour(self) -> float | None:
        """Return the on-demand price; None if no price has a source."""
        return self.price.usd_per_hour if self.price else None

    @property
    def price_source(self) -> str | None:
        """Return the source of the price."""
        return self.price.source if self.price else None

    @property
    def price_date(self) -> datetime.date | None:
        """Return the date on which the source published the price."""
        return self.price.date if self.price else None

    @property
    def threads_per_core(self) -> int:
        """Return the threads per core: 1 if the type has no second thread (every hpc type, arm64)."""
        return self.cpus // self.cores

    @property
    def bare_metal(self) -> bool:
        """Return whether it is a server without a hypervisor, for which EC2 rejects CPU options (EC2 user guide: CPU options)."""
        return ".metal" in self.name

    def cpus_with(self, threads_per_core: int | None) -> int:
        """Return the vCPUs of an instance launched with that number of threads per core; None means the type's default."""
        return self.cpus if threads_per_core is None else self.cores * threads_per_core

    @property
    def efa_cards(self) -> range:
        """Return the indices of the network cards that support an EFA interface."""
        first = 0 if self.primary_card_takes_efa else 1
        return range(first, first + self.efa_interfaces)

    @property
    def quota_family(self) -> QuotaFamily:
        """Return the vCPU quota that applies to it."""
        return _FAMILIES.get(self._parts()["letters"], QuotaFamily.STANDARD)

    @property
    def generation(self) -> int:
        """Return the generation: 5 for `p5en.48xlarge`."""
        return int(self._parts()["generation"])

    def _parts(self) -> re.Match[str]:
        match = _NAME.match(self.name)
        if match is None:
            raise ValueError(f"no name of an instance type: {self.name}")
        return match


_NAME: Final = re.compile(r"(?P<letters>[a-z]+)(?P<generation>\d+)")


_FAMILIES: Final[Mapping[str, QuotaFamily]] = {
    "g": QuotaFamily.G_AND_VT,
    "gr": QuotaFamily.G_AND_VT,
    "vt": QuotaFamily.G_AND_VT,
    "p": QuotaFamily.P,
    "inf": QuotaFamily.INF,
    "trn": QuotaFamily.TRN,
    "hpc": QuotaFamily.HPC,
}
"""Families by the first letters of a type's name; the other types here are standard (A, C, D, H, I, M, R, T, Z)."""


def instance_types() -> Mapping[str, InstanceType]:
    """Return all known types by name: the product's and the site's."""
    return _types(site.catalog())


@cache
def _types(of_site: site.SiteCatalog) -> Mapping[str, InstanceType]:
    return {**{name: _site_type(name, row) for name, row in of_site.rows.instances.items()}, **_product_types()}


@cache
def _product_types() -> Mapping[str, InstanceType]:
    return {row["name"]: _instance_type(row) for row in rows("instances")}


def _site_type(name: str, row: site.SiteInstance) -> InstanceType:
    price = row.price
    return InstanceType(
        name=name,
        **row.model_dump(exclude={"usage_classes", "regions", "price"}),
        usage_classes=frozenset(UsageClass(one) for one in row.usage_classes),
        regions=frozenset(row.regions),
        price=Price(price.usd_per_hour, price.region, price.source, price.date) if price else None,
    )


def _instance_type(row: Mapping[str, str]) -> InstanceType:
    return InstanceType(
        name=row["name"],
        architecture=row["architecture"],
        cpus=int(row["cpus"]),
        cores=int(row["cores"]),
        memory_mib=int(row["memory_mib"]),
        gpu_model=row["gpu_model"] or None,
        gpu_count=int(row["gpu_count"]),
        neuron_devices=int(row["neuron_devices"]),
        efa_interfaces=int(row["efa_interfaces"]),
        network_cards=int(row["network_cards"]),
        interfaces_per_card=int(row["interfaces_per_card"]),
        primary_card_takes_efa=row["primary_card_takes_efa"] == "yes",
        gbps=float(row["gbps"]),
        nvme_gb=int(row["nvme_gb"]),
        usage_classes=frozenset(UsageClass(word) for word in row["usage_classes"].split()),
        cluster_placement=row["cluster_placement"] == "yes",
        regions=frozenset(row["regions"].split()),
        price=_price(row),
        source=row["source"],
        date=datetime.date.fromisoformat(row["date"]),
    )


def _price(row: Mapping[str, str]) -> Price | None:
    """Return the price; raise if it has no region, source or date."""
    if not row["usd_per_hour"]:
        return None
    if not (row["price_region"] and row["price_source"]):
        raise ValueError(f"instances.csv: {row['name']}: a price without region or source")
    return Price(float(row["usd_per_hour"]), row["price_region"], row["price_source"], datetime.date.fromisoformat(row["price_date"]))
