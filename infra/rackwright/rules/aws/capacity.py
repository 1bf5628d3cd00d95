"""How instances of target `aws` are bought: spot, reservations, capacity blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rackwright.catalog.instances import UsageClass
from rackwright.model.finding import Severity
from rackwright.model.groups import Role
from rackwright.model.targets.aws import CapacityBlock, OnDemand, Spot
from rackwright.rules.aws.groups import InstanceGroup, fleets, target
from rackwright.rules.registry import RuleContext, Violation, rule

_MOST_IN_BLOCK: Final = 64
_MOST_IN_BLOCKS: Final = 256
"""Instances of one block and of all (EC2 user guide: Capacity Blocks for ML)."""
_HEADS: Final = (Role.LOGIN, Role.CONTROLLER, Role.ACCOUNTING, Role.STORAGE)
_BUYING: Final = {Spot: UsageClass.SPOT, CapacityBlock: UsageClass.CAPACITY_BLOCK}


def _unsupported(case: RuleContext, kind: type[Spot | CapacityBlock]) -> Iterator[InstanceGroup]:
    """Yield groups with a purchase option that their type does not support."""
    for fleet in fleets(case):
        if isinstance(fleet.declared.capacity_type, kind) and _BUYING[kind] not in fleet.type.usage_classes:
            yield fleet


@rule("spot-unsupported")
def spot_unsupported(case: RuleContext) -> Iterator[Violation]:
    """No hpc type is sold as spot, among others (AWS ParallelCluster v3.11.1: CapacityTypeValidator)."""
    for fleet in _unsupported(case, Spot):
        yield Violation(f"{fleet.path}.capacity_type", f"{fleet.type.name} is not sold as spot", "use `{kind: on-demand}`")


@rule("capacity-block-unsupported")
def capacity_block_unsupported(case: RuleContext) -> Iterator[Violation]:
    """Only some P and Trn types are sold in blocks (AWS ParallelCluster v3.11.1: CapacityTypeValidator)."""
    for fleet in _unsupported(case, CapacityBlock):
        yield Violation(f"{fleet.path}.capacity_type", f"{fleet.type.name} is not sold in capacity blocks", "use `{kind: on-demand}`")


@rule("spot-on-head-node", Severity.WARNING)
def spot_on_head_node(case: RuleContext) -> Iterator[Violation]:
    """AWS reclaims spot instances with two minutes' notice (EC2 user guide: Spot Instance interruptions)."""
    for fleet in fleets(case):
        heads = [role.value for role in fleet.roles if role in _HEADS]
        if isinstance(fleet.declared.capacity_type, Spot) and heads:
            cause = f"the cluster stops working when AWS reclaims group {fleet.name}, which has the role {', '.join(heads)}"
            yield Violation(f"{fleet.path}.capacity_type", cause, "use spot for workers only")


@rule("spot-prices")
def spot_prices(case: RuleContext) -> Iterator[Violation]:
    """The expected price must not exceed the maximum price."""
    for fleet in fleets(case):
        spot = fleet.declared.capacity_type
        if not isinstance(spot, Spot) or spot.max_usd_per_hour is None or spot.expected_usd_per_hour is None:
            continue
        if spot.max_usd_per_hour < spot.expected_usd_per_hour:
            cause = f"{spot.max_usd_per_hour:g} is less than the expected {spot.expected_usd_per_hour:g}: no instance would start"
            yield Violation(f"{fleet.path}.capacity_type.max_usd_per_hour", cause, "omit it; the default is the list price")


@rule("spot-price-above-list", Severity.WARNING)
def spot_price_above_list(case: RuleContext) -> Iterator[Violation]:
    """Spot never costs more than the list price (EC2 user guide: Spot Instance pricing)."""
    for fleet in fleets(case):
        spot, price = fleet.declared.capacity_type, fleet.type.price
        if (
            isinstance(spot, Spot)
            and price is not None
            and price.region == _region(case)
            and (spot.expected_usd_per_hour or 0) > price.usd_per_hour
        ):
            cause = f"{spot.expected_usd_per_hour:g} is above the list price of {price.usd_per_hour:g} ({price.region}, {price.date})"
            yield Violation(
                f"{fleet.path}.capacity_type.expected_usd_per_hour",
                cause,
                "run `aws ec2 describe-spot-price-history` to see current prices",
            )


def _region(case: RuleContext) -> str:
    here = target(case)
    return here.region if here else ""


@rule("capacity-block-source")
def capacity_block_source(case: RuleContext) -> Iterator[Violation]:
    """A block is either purchased by this stack or already exists (AWS ParallelCluster v3.11.1: CapacityReservationValidator)."""
    for name, block in _blocks(case):
        if (block.offering is None) == (block.reservation is None):
            says = (
                "says neither which block to buy nor which was bought" if block.offering is None else "names a block to buy and one bought"
            )
            hint = "`aws ec2 describe-capacity-block-offerings` lists offerings; `describe-capacity-reservations` what you bought"
            yield Violation(f"target.instances.{name}.capacity_type", says, f"give `offering` or `reservation`: {hint}")


def _blocks(case: RuleContext) -> Iterator[tuple[str, CapacityBlock]]:
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        if isinstance(declared.capacity_type, CapacityBlock):
            yield name, declared.capacity_type


@rule("capacity-block-size")
def capacity_block_size(case: RuleContext) -> Iterator[Violation]:
    """Each block has a maximum size, and so have all blocks together."""
    counts = {name: case.cluster.groups[name].count for name, _ in _blocks(case) if name in case.cluster.groups}
    for name, count in counts.items():
        if count > _MOST_IN_BLOCK:
            cause = f"{count} instances; a capacity block has at most {_MOST_IN_BLOCK}"
            yield Violation(f"groups.{name}.count", cause, "use several groups, each with its own block")
    if sum(counts.values()) > _MOST_IN_BLOCKS:
        cause = f"{sum(counts.values())} instances in capacity blocks; AWS sells at most {_MOST_IN_BLOCKS} to an account"
        yield Violation("target.instances", cause, "reduce a count")


@rule("capacity-block-empty")
def capacity_block_empty(case: RuleContext) -> Iterator[Violation]:
    """A block is paid for in advance, whether it runs instances or not (AWS ParallelCluster v3.11.1: ComputeResourceSizeValidator)."""
    for name, block in _blocks(case):
        group = case.cluster.groups.get(name)
        if group is not None and group.count == 0 and block.offering is not None:
            yield Violation(
                f"target.instances.{name}.capacity_type",
                "would buy a block for a group without nodes",
                "increase the count, or remove the purchase",
            )


@rule("reservation-placeholder", Severity.WARNING, level_on_deploy=Severity.ERROR)
def reservation_placeholder(case: RuleContext) -> Iterator[Violation]:
    """An id of zeros is the placeholder of an example."""
    for path, id_ in _ids(case):
        if re.fullmatch(r"[a-z]+-(.)\1*", id_):
            yield Violation(path, f"{id_} is a placeholder", "enter the id of your reservation or offering")


def _ids(case: RuleContext) -> Iterator[tuple[str, str]]:
    """Yield ids of reservations and offerings, with their paths."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        for key in ("reservation", "offering"):
            id_ = getattr(declared.capacity_type, key, None)
            if id_ is not None:
                yield f"target.instances.{name}.capacity_type.{key}", id_


@rule("reservation-types")
def reservation_types(case: RuleContext) -> Iterator[Violation]:
    """A reservation is for one instance type (AWS ParallelCluster v3.11.1: CapacityReservationValidator)."""
    first: dict[str, InstanceGroup] = {}
    for fleet in fleets(case):
        if isinstance(fleet.declared.capacity_type, OnDemand | CapacityBlock) and fleet.declared.capacity_type.reservation is not None:
            other = first.setdefault(fleet.declared.capacity_type.reservation, fleet)
            if other.type is not fleet.type:
                cause = f"is also used by group {other.name} with type {other.type.name}: a reservation is for one type"
                yield Violation(f"{fleet.path}.capacity_type.reservation", cause, "use a separate reservation for each type")


@rule("duplicate-capacity-offering")
def duplicate_capacity_offering(case: RuleContext) -> Iterator[Violation]:
    """An offering can be bought only once."""
    first: dict[str, str] = {}
    for name, block in _blocks(case):
        other = first.setdefault(block.offering, name) if block.offering is not None else name
        if other != name:
            yield Violation(
                f"target.instances.{name}.capacity_type.offering",
                f"is also used by group {other}",
                "find a separate offering for each group",
            )


_SLOW_BOOT: Final = 300
"""Seconds; an estimate: EC2 publishes no figure, and types with many GPUs reportedly take minutes."""


def _stoppable(case: RuleContext) -> Iterator[InstanceGroup]:
    """Yield groups whose nodes Slurm may stop."""
    if case.slurm.power_saving is not None:
        yield from (fleet for fleet in fleets(case) if set(fleet.roles) == {Role.WORKER} and fleet.group.count)


@rule("power-saving-spot")
def power_saving_spot(case: RuleContext) -> Iterator[Violation]:
    """Only instances of a persistent spot request can be stopped (EC2 user guide: Stop and start Spot Instances); ours are one-time."""
    for fleet in _stoppable(case):
        if isinstance(fleet.declared.capacity_type, Spot):
            hint = "use `{kind: on-demand}`, or remove scheduler.power_saving"
            yield Violation(
                f"{fleet.path}.capacity_type", "spot instances cannot be stopped and started, which power_saving requires", hint
            )


@rule("power-saving-scratch", Severity.WARNING)
def power_saving_scratch(case: RuleContext) -> Iterator[Violation]:
    """Instance storage is lost at a stop (EC2 user guide: Instance store)."""
    for fleet in _stoppable(case):
        if fleet.type.nvme_gb:
            cause = f"each stop deletes the data on the {fleet.type.nvme_gb} GB of NVMe of a {fleet.type.name}"
            yield Violation(f"{fleet.path}.type", cause, "inform the users, and store data that later jobs need elsewhere")


@rule("power-saving-boot", Severity.WARNING)
def power_saving_boot(case: RuleContext) -> Iterator[Violation]:
    """Slurm marks a node that does not resume in time as down, and the job waits for another node."""
    saving = case.slurm.power_saving
    if saving is not None and target(case) is not None and saving.resume_timeout < _SLOW_BOOT:
        cause = f"{saving.resume_timeout} s may be less than an instance takes to start"
        yield Violation("scheduler.power_saving.resume_timeout", cause, "use 10m")
