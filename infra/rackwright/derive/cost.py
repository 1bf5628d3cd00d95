"""Cost of a running cluster, line by line, from the catalogue's list prices and the stack file's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rackwright.catalog.fsx import DeploymentType, DriveCache, StorageType
from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.catalog.prices import HOURS_PER_MONTH, UnitPrice, lustre_storage, prices
from rackwright.model.base import ConfigModel
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Group, Role, roles_of
from rackwright.model.storage.existing import ExistingFileSystem
from rackwright.model.storage.exports import MooseFs
from rackwright.model.storage.fsx import FsxLustre
from rackwright.model.targets.aws import AwsTarget, CapacityBlock, Instances, Nat, RootVolume, Spot
from rackwright.model.targets.hosts import HostsTarget

HOURS_PER_YEAR: Final = 8760
"""Of 365 days; accountants write hardware off by calendar years."""
SMALL_DISK_GIB: Final = 20
"""GiB of a disk without a declared size: Slurm's state, its accounting database, a metadata server's changelogs."""
_FREE_IOPS: Final = 3000
_FREE_THROUGHPUT: Final = 125
"""MiB/s that every gp3 volume includes in its price (prices.csv: ebs-gp3-iops, ebs-gp3-throughput)."""
_THE_STACK_FILE: Final = "the stack file"
_DIGITS: Final = 6
"""Decimal places of an amount in USD. Chosen: more than prices in prices.csv have, few enough to hide the rounding of binary fractions."""


class CostLine(ConfigModel):
    """Cost of one item. Without `usd_per_hour` the price is unknown, or paid up front; the remark has the reason."""

    group: str
    """The group it belongs to, the file system's name, or `network`."""
    count: int
    usd_per_hour: float | None
    """All of them together."""
    source: str
    item: str = ""
    date: str | None = None
    """The day the price was published, ISO 8601; None for a price of the stack file."""
    region: str | None = None
    remark: str = ""
    usd_up_front: float | None = None
    """One-time payment, whether or not the item runs; `usd_per_hour` is then its share per hour."""

    @property
    def known(self) -> bool:
        """Return whether the price is known."""
        return self.usd_per_hour is not None or self.usd_up_front is not None


class Cost(ConfigModel):
    """Cost of a running stack."""

    usd_per_hour: float = 0.0
    """Sum of the known prices."""
    lines: tuple[CostLine, ...] = ()
    complete: bool = True
    """False where a price is missing: every sum is then a lower bound."""
    notes: tuple[str, ...] = ()

    @property
    def usd_up_front(self) -> float:
        """Return the sum of one-time payments."""
        return sum(line.usd_up_front or 0.0 for line in self.lines)

    def total(self, hours: float) -> float:
        """Return the total cost after some hours."""
        running = sum(line.usd_per_hour or 0.0 for line in self.lines if line.usd_up_front is None)
        return round(self.usd_up_front + spent(1, running, hours), _DIGITS)


def spent(count: float, usd_per_hour: float, hours: float = 1.0) -> float:
    """Return the cost of items that are paid by the hour.

    >>> spent(8, 98, 7 * 24)
    131712
    """
    return round(count * usd_per_hour * hours, _DIGITS)


def cost(cluster: Cluster) -> Cost:
    """Return the lines of a cluster and their sum; a node that is out costs the same as one that is in."""
    lines = tuple(_lines(cluster))
    known = sum(line.usd_per_hour for line in lines if line.usd_per_hour is not None)
    return Cost(
        usd_per_hour=round(known, _DIGITS), lines=lines, complete=all(line.known for line in lines), notes=tuple(_notes(cluster, lines))
    )


def _lines(cluster: Cluster) -> Iterator[CostLine]:
    target = cluster.target
    if isinstance(target, AwsTarget):
        yield from _aws(cluster, target)
    elif isinstance(target, HostsTarget):
        yield from _machines(cluster, target)
    else:
        yield from (CostLine(group=name, count=group.count, usd_per_hour=0.0, source=_LAB) for name, group in cluster.groups.items())


_LAB: Final = "containers on this machine"


def _machines(cluster: Cluster, target: HostsTarget) -> Iterator[CostLine]:
    ownership = target.ownership_cost
    for name, group in cluster.groups.items():
        mine = ownership.machines.get(name) if ownership else None
        if ownership is None or mine is None:
            remark = "unknown: declare target.ownership_cost"
            yield CostLine(group=name, count=group.count, usd_per_hour=None, source=_THE_STACK_FILE, item="machines", remark=remark)
            continue
        written_off = mine.price_usd / (ownership.years * HOURS_PER_YEAR)
        power = mine.watts / 1000 * ownership.pue * ownership.electricity_usd_per_kwh
        usd = spent(group.count, written_off + power)
        remark = f"{written_off:.3f} written off and {power:.3f} power, each"
        yield CostLine(group=name, count=group.count, usd_per_hour=usd, source=_THE_STACK_FILE, item="machines", remark=remark)


def _aws(cluster: Cluster, target: AwsTarget) -> Iterator[CostLine]:
    for name, group in cluster.groups.items():
        declared = target.instances.get(name)
        if declared is not None and group.count:
            yield _instances(name, group.count, declared)
            yield _roots(name, group.count, declared.root_volume)
        disks = _disks(cluster, name, group)
        if disks:
            yield _priced("ebs-gp3-storage", name, "data volumes", sum(disks) / len(disks), len(disks))
    for name, storage in cluster.storage.items():
        if isinstance(storage, FsxLustre):
            yield from _lustre(name, storage)
    yield from _network(target, sum(group.count for name, group in cluster.groups.items() if Role.LOGIN in roles_of(name, group)))


def _instances(group: str, count: int, declared: Instances) -> CostLine:
    known = instance_types().get(declared.type)
    line = _listed(group, count, declared.type, known)
    match declared.capacity_type:
        case Spot(expected_usd_per_hour=float() as expected):
            own = {"usd_per_hour": spent(count, expected), "source": _THE_STACK_FILE, "date": None, "region": None}
            return line.model_copy(update={**own, "remark": "spot, as expected"})
        case Spot(max_usd_per_hour=most):
            ceiling = min((usd for usd in (most, known.usd_per_hour if known else None) if usd is not None), default=None)
            usd = None if ceiling is None else spent(count, ceiling)
            return line.model_copy(update={"usd_per_hour": usd, "remark": "spot: at most this, the list price or your own limit"})
        case CapacityBlock(usd_total=total, duration=duration):
            return _block(line, total, duration)
        case _:
            return line


def _listed(group: str, count: int, type_: str, known: InstanceType | None) -> CostLine:
    price = known.price if known else None
    if price is None:
        return CostLine(group=group, count=count, usd_per_hour=None, source="no source found", item=type_, remark="no price on record")
    return CostLine(
        group=group,
        count=count,
        usd_per_hour=spent(count, price.usd_per_hour),
        source=price.source,
        item=type_,
        date=price.date.isoformat(),
        region=price.region,
        remark="on demand",
    )


def _block(line: CostLine, total: float | None, duration: int | None) -> CostLine:
    """Return the line of a capacity block, paid when it is bought, by its offering: the list price does not apply."""
    own = {"source": _THE_STACK_FILE, "date": None, "region": None, "usd_up_front": total}
    if total is None:
        return line.model_copy(update={**own, "usd_per_hour": None, "remark": "capacity block: paid up front, usd_total is not declared"})
    if duration is None:
        return line.model_copy(update={**own, "usd_per_hour": None, "remark": "capacity block: paid up front, not in the hourly price"})
    hours = duration / 3600
    return line.model_copy(update={**own, "usd_per_hour": round(total / hours, _DIGITS), "remark": f"capacity block of {hours:g} h"})


def _roots(group: str, count: int, root: RootVolume) -> CostLine:
    line = _priced("ebs-gp3-storage", group, "root volumes", -(-root.size // 2**30), count)
    more = (("ebs-gp3-iops", root.iops - _FREE_IOPS), ("ebs-gp3-throughput", root.throughput - _FREE_THROUGHPUT))
    extra = sum(spent(count * amount, prices()[item].usd_per_hour or 0.0) for item, amount in more if amount > 0)
    return line.model_copy(update={"usd_per_hour": round((line.usd_per_hour or 0.0) + extra, _DIGITS)})


def _disks(cluster: Cluster, name: str, group: Group) -> list[int]:
    """Return GiB of each disk that outlives its node, also of nodes that are out: the plan's volumes."""
    roles = roles_of(name, group)
    served = [
        storage
        for storage in cluster.storage.values()
        if not isinstance(storage, ExistingFileSystem)
        if storage.served_by_nodes and (name in storage.servers if storage.servers else Role.STORAGE in roles)
    ]
    small = any(isinstance(storage, MooseFs) for storage in served) + (Role.ACCOUNTING in roles) + (Role.CONTROLLER in roles)
    return [*(-(-storage.size // 2**30) for storage in served), *[SMALL_DISK_GIB] * small] * group.count


def _lustre(name: str, storage: FsxLustre) -> Iterator[CostLine]:
    cache = DriveCache.READ if storage.drive_cache else DriveCache.NONE
    kind = (DeploymentType(storage.deployment_type.value), StorageType(storage.storage_type.value), storage.throughput, cache)
    gib = storage.size // 2**30
    item = f"FSx for Lustre, {gib} GiB"
    try:
        yield _line(lustre_storage(*kind), name, item, gib, 1)
    except KeyError:
        yield CostLine(group=name, count=1, usd_per_hour=None, source="no source found", item=item, remark="FSx does not offer it")
    if storage.metadata_iops is not None:
        line = _priced("fsx-metadata-iops", name, f"{storage.metadata_iops} metadata IOPS", storage.metadata_iops, 1)
        yield line.model_copy(update={"remark": "at most: what the capacity includes is free"})
    if storage.backups:
        yield _priced("fsx-backup", name, f"backups of {storage.backups} days", gib, 1)


def _network(target: AwsTarget, logins: int) -> Iterator[CostLine]:
    nat = target.nat is Nat.GATEWAY
    if nat:
        yield _priced("nat-gateway", "network", "NAT gateway", 1, 1)
    addresses = logins + nat
    if addresses:
        yield _priced("public-ipv4", "network", "public addresses", 1, addresses)


def _priced(item: str, group: str, name: str, amount: float, count: int) -> CostLine:
    return _line(prices()[item], group, name, amount, count)


def _line(price: UnitPrice, group: str, name: str, amount: float, count: int) -> CostLine:
    """Return the line of items of equal size at a unit price."""
    each = price.usd_per_hour
    return CostLine(
        group=group,
        count=count,
        usd_per_hour=None if each is None else spent(count * amount, each),
        source=price.source,
        item=name,
        date=price.date.isoformat(),
        region=price.region,
        remark="no price on record" if each is None else "",
    )


def _notes(cluster: Cluster, lines: Iterable[CostLine]) -> Iterator[str]:
    target = cluster.target
    if not isinstance(target, AwsTarget):
        return
    elsewhere = sorted({line.region for line in lines if line.region and line.region != target.region})
    if elsewhere:
        yield f"prices are those of {', '.join(elsewhere)}; the stack is in {target.region}, where they may differ"
    through, out = prices()["nat-gateway-data"], prices()["internet-out"]
    yield f"traffic is not in it: {through.usd:g} USD per GB through the NAT gateway, {out.usd:g} USD per GB to the internet ({out.region})"
    yield f"a month has {HOURS_PER_MONTH} hours; list prices before tax and discounts"
