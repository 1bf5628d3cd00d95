"""EFA and placement on target `aws`: where a type has them, where they help, and where they exclude something else."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.model.finding import Severity
from rackwright.model.groups import Role
from rackwright.model.targets.aws import CapacityBlock
from rackwright.rules.aws.groups import InstanceGroup, fleets
from rackwright.rules.registry import RuleContext, Violation, rule


def _can_be_placed(fleet: InstanceGroup) -> bool:
    """Return whether the group can use a placement group; a capacity block is colocated already."""
    return fleet.type.cluster_placement and not isinstance(fleet.declared.capacity_type, CapacityBlock)


@rule("efa-unsupported")
def efa_unsupported(case: RuleContext) -> Iterator[Violation]:
    """EC2 refuses an EFA interface on a type without (AWS ParallelCluster v3.11.1: EfaValidator)."""
    for fleet in fleets(case):
        if fleet.declared.efa and not fleet.type.efa_interfaces:
            yield Violation(f"{fleet.path}.efa", f"{fleet.type.name} has no EFA", "remove it, or use a larger size of the family")


@rule("efa-not-enabled", Severity.WARNING)
def efa_not_enabled(case: RuleContext) -> Iterator[Violation]:
    """Without EFA, multi-node jobs use TCP without a warning (AWS ParallelCluster v3.11.1: EfaValidator)."""
    for fleet in fleets(case):
        if fleet.type.efa_interfaces and not fleet.declared.efa and Role.WORKER in fleet.roles and fleet.group.count > 1:
            cause = f"{fleet.type.name} has EFA, but jobs over several nodes would not use it"
            yield Violation(f"{fleet.path}.efa", cause, "add `efa: true`, which costs nothing")


@rule("efa-login")
def efa_login(case: RuleContext) -> Iterator[Violation]:
    """An Elastic IP is associated with an instance that has exactly one interface (EC2 API: AssociateAddress)."""
    for fleet in fleets(case):
        if fleet.declared.efa and fleet.type.efa_interfaces > 1 and Role.LOGIN in fleet.roles:
            cause = f"with EFA {fleet.type.name} has several interfaces and no public address, so login is impossible"
            yield Violation(f"{fleet.path}.efa", cause, "remove it, or create a separate group for login")


@rule("efa-unused", Severity.WARNING)
def efa_unused(case: RuleContext) -> Iterator[Violation]:
    """Only jobs, and clients of file systems with EFA, use EFA."""
    for fleet in fleets(case):
        if fleet.declared.efa and fleet.type.efa_interfaces and Role.WORKER not in fleet.roles:
            cause = f"group {fleet.name} does not use EFA: it does not have the role worker"
            yield Violation(f"{fleet.path}.efa", cause, "remove it")


@rule("efa-without-placement-group", Severity.WARNING)
def efa_without_placement_group(case: RuleContext) -> Iterator[Violation]:
    """Instances without a placement group may be far apart, which slows EFA (AWS ParallelCluster v3.11.1: EfaPlacementGroupValidator)."""
    for fleet in fleets(case):
        if fleet.declared.efa and fleet.declared.placement_group is False and fleet.group.count > 1 and _can_be_placed(fleet):
            yield Violation(
                f"{fleet.path}.placement_group", "EFA between nodes that may be far apart", "omit it; the default follows `efa`"
            )


@rule("placement-unsupported")
def placement_unsupported(case: RuleContext) -> Iterator[Violation]:
    """Not every type can be launched in a placement group (AWS ParallelCluster v3.11.1: InstanceTypePlacementGroupValidator)."""
    for fleet in fleets(case):
        if fleet.declared.placement_group and not fleet.type.cluster_placement:
            yield Violation(
                f"{fleet.path}.placement_group", f"{fleet.type.name} cannot be placed in a cluster placement group", "remove it"
            )


@rule("placement-capacity-block")
def placement_capacity_block(case: RuleContext) -> Iterator[Violation]:
    """EC2 refuses a placement group with a capacity block (AWS ParallelCluster v3.11.1: PlacementGroupCapacityTypeValidator)."""
    for fleet in fleets(case):
        if fleet.declared.placement_group and isinstance(fleet.declared.capacity_type, CapacityBlock):
            cause = "the instances of a capacity block are already close together and accept no placement group"
            yield Violation(f"{fleet.path}.placement_group", cause, "remove it")


@rule("placement-group-single-instance", Severity.WARNING)
def placement_group_single_instance(case: RuleContext) -> Iterator[Violation]:
    """A placement group has no effect on one instance."""
    for fleet in fleets(case):
        if fleet.declared.placement_group and fleet.group.count == 1 and _can_be_placed(fleet):
            yield Violation(
                f"{fleet.path}.placement_group", f"group {fleet.name} has a single node, which needs no placement group", "remove it"
            )
