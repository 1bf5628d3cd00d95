"""Owned machines compared with rented ones: cost of a GPU-hour, power of a rack, break-even time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.catalog.prices import HOURS_PER_MONTH
from rackwright.derive.cost import HOURS_PER_YEAR, spent
from rackwright.derive.nodes import DeclaredNode, members
from rackwright.model.cluster import Cluster
from rackwright.model.groups import counts_by_model
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.targets.ownership_cost import OwnershipCostInputs

NO_RACK = "no rack"


@dataclass(frozen=True, slots=True)
class RentalPrice:
    """The same GPUs in a cloud."""

    name: str
    usd_per_hour: float
    source: str


@dataclass(frozen=True, slots=True)
class OwnershipCost:
    """Cost of owned machines. Nodes that are out were bought, too."""

    gpus: int
    usd_bought: float
    usd_per_hour: float
    """Written off and powered."""
    usd_per_gpu_hour: float | None
    """For each hour that a job uses a GPU; None without GPUs."""
    kw_by_rack: dict[str, float]
    """At the outlet, without the room's cooling."""
    power_usd_per_hour: float
    utilisation: float

    def break_even_months(self, rented: RentalPrice) -> float | None:
        """Return the months after which buying is cheaper than renting for the hours that jobs use, or None for never."""
        saved = (rented.usd_per_hour * self.utilisation - self.power_usd_per_hour) * HOURS_PER_MONTH
        return self.usd_bought / saved if saved > 0 else None


def compute_ownership_cost(cluster: Cluster) -> OwnershipCost | None:
    """Return the ownership cost of a cluster; None where the stack file declares none."""
    inputs = cluster.target.ownership_cost if isinstance(cluster.target, HostsTarget) else None
    if inputs is None:
        return None
    known = [member for member in members(cluster) if member.group in inputs.machines]
    gpus = sum(member.gpus.count for member in known if member.gpus is not None)
    bought = sum(inputs.machines[member.group].price_usd for member in known)
    racks = _kilowatts(known, inputs)
    power = sum(racks.values()) * inputs.pue * inputs.electricity_usd_per_kwh
    hourly = bought / (inputs.years * HOURS_PER_YEAR) + power
    return OwnershipCost(
        gpus=gpus,
        usd_bought=bought,
        usd_per_hour=hourly,
        usd_per_gpu_hour=hourly / (gpus * inputs.utilisation) if gpus else None,
        kw_by_rack=racks,
        power_usd_per_hour=power,
        utilisation=inputs.utilisation,
    )


def _kilowatts(known: list[DeclaredNode], inputs: OwnershipCostInputs) -> dict[str, float]:
    watts: Counter[str] = Counter()
    for member in known:
        watts[member.rack or NO_RACK] += round(inputs.machines[member.group].watts)
    return {rack: drawn / 1000 for rack, drawn in watts.items()}


def equivalent_instances(cluster: Cluster) -> RentalPrice | None:
    """Return the cheapest EC2 types with as many GPUs of the same models, on demand; None where EC2 has no such model."""
    wanted: Counter[str] = Counter()
    for member in members(cluster):
        if member.gpus is not None:
            wanted.update(counts_by_model(member.gpus))
    found = {model: _cheapest(model, count) for model, count in wanted.items()}
    if not found or None in found.values():
        return None
    chosen = [one for one in found.values() if one is not None]
    sources = dict.fromkeys(f"{type_.price_source}, {type_.price_date}" for type_, _ in chosen)
    return RentalPrice(
        name=" + ".join(f"{count} x {type_.name}" for type_, count in chosen),
        usd_per_hour=sum(spent(count, type_.usd_per_hour or 0.0) for type_, count in chosen),
        source="; ".join(sources),
    )


def _cheapest(model: str, gpus: int) -> tuple[InstanceType, int] | None:
    priced = [type_ for type_ in instance_types().values() if type_.gpu_model == model and type_.gpu_count and type_.usd_per_hour]
    ways = [(type_, -(-gpus // type_.gpu_count)) for type_ in priced]
    return min(ways, key=lambda way: (way[1] * (way[0].usd_per_hour or 0.0), way[1]), default=None)
