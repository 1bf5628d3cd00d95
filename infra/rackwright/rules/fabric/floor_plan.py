"""Floor plan of the fabric: racks with unique positions and limited space, and the management plane in the nodes' racks."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog.site import hint_to_add
from rackwright.catalog.switches import Use, switches
from rackwright.derive.fabric import future_racks, groups_of, measures_of, nodes_of, rails_of, switch_of
from rackwright.derive.fabric_layout import RACK_UNITS
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.fabric.switches import FabricTopology
from rackwright.model.finding import Severity, did_you_mean, did_you_mean_model
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule


def _rack(case: RuleContext, member: DeclaredNode) -> str | None:
    """Return the rack of a node, from its group, its override or its machine."""
    target = case.cluster.target
    machine = target.machine_by_node.get(member.name) if isinstance(target, HostsTarget) else None
    return member.rack or (machine.rack if machine else None)


@rule("fabric-floor")
def fabric_floor(case: RuleContext) -> Iterator[Violation]:
    """A rack without a position, or with two, has no distance to others."""
    floor = case.cluster.fabric.floor_plan if case.cluster.fabric else None
    if floor is None:
        return
    standing = [rack for row in floor.rows for rack in row]
    for rack in dict.fromkeys(rack for rack in standing if standing.count(rack) > 1):
        yield Violation("fabric.floor_plan.rows", f"rack {rack} is listed twice", "list each rack once")
    for rack in dict.fromkeys(rack for rack in floor.switch_racks if floor.switch_racks.count(rack) > 1):
        yield Violation(
            "fabric.floor_plan.switch_racks", f"rack {rack} is listed twice", "list each rack once; a second entry adds no space"
        )
    for rack in dict.fromkeys(rack for rack in floor.switch_racks if rack not in standing):
        yield Violation("fabric.floor_plan.switch_racks", f"rack {rack} is in no row", did_you_mean(rack, standing))
    for place, node in {_rack(case, member): member.name for member in case.members}.items():
        if place is None or place in standing:
            continue
        yield Violation("fabric.floor_plan.rows", f"rack {place} of {node} is in no row", did_you_mean(place, standing))


@rule("fabric-floor-room", Severity.WARNING)
def fabric_floor_room(case: RuleContext) -> Iterator[Violation]:
    """A node without a rack has no cable length in the cable list, and no management port: the list would be incomplete for an order."""
    fabric = case.cluster.fabric
    if fabric is None or not (fabric.floor_plan or fabric.management_network):
        return
    groups = groups_of(case.cluster, fabric)
    coming = nodes_of(case.cluster, fabric) - sum(case.cluster.groups[name].count for name in groups)
    if fabric.floor_plan is None:
        among = f" and {coming} future nodes" if coming > 0 else ""
        cause = f"without `floor_plan`, the management plane has no ports for the fabric's switches{among}"
        yield Violation(
            "fabric.management_network", cause, "declare `floor_plan`, with racks for all nodes for which the fabric is planned"
        )
        return
    racks = {member.name: rack for member in case.members if (rack := _rack(case, member))}
    here = [racks[member.name] for member in case.members if member.group in groups and member.name in racks]
    standing = [rack for row in fabric.floor_plan.rows for rack in row]
    missing = coming - len(future_racks(standing, [*racks.values(), *fabric.floor_plan.switch_racks], here))
    if missing > 0:
        cause = f"{missing} of {coming} future nodes have no rack on the floor, so their cables have no length"
        hint = "add the racks of the future nodes; each rack is assumed to become as full as the fullest existing one"
        yield Violation("fabric.floor_plan.rows", cause, hint)


@rule("fabric-switch-racks")
def fabric_switch_racks(case: RuleContext) -> Iterator[Violation]:
    """A rack has 42 units, and existing switches must stay in their racks when nodes are added."""
    fabric = case.cluster.fabric
    switch = switch_of(fabric) if fabric else None
    measures = measures_of(case.cluster, fabric, switch) if fabric else None
    if fabric is None or fabric.floor_plan is None or switch is None or measures is None:
        return
    rails = rails_of(case.cluster, fabric) if fabric.topology is FabricTopology.RAIL_OPTIMISED else 1
    if switch.rack_units is None:
        hint = f"remove it, or measure the switch and {hint_to_add('switches', f'my-{switch.model}')}"
        yield Violation("fabric.floor_plan", f"the catalogue has no height of {switch.product}", hint)
        return
    racks = len(set(fabric.floor_plan.switch_racks))
    pods = measures.pods
    spines, cores = measures.spines * (pods.number if pods else 1), measures.spines * (pods.cores if pods else 0)
    tallest = (-(-measures.units // racks) * rails + -(-spines // racks) + -(-cores // racks)) * switch.rack_units
    if tallest > RACK_UNITS:
        cause = f"{measures.units * rails + spines + cores} switches are {tallest} units in each of {racks} rack{'s' if racks > 1 else ''}"
        yield Violation("fabric.floor_plan.switch_racks", cause, f"list more racks; a rack has {RACK_UNITS} units")


@rule("fabric-management")
def fabric_management(case: RuleContext) -> Iterator[Violation]:
    """Management switches are in the nodes' racks, so that each node needs a rack."""
    declared = case.cluster.fabric.management_network if case.cluster.fabric else None
    if declared is None:
        return
    known = switches().get(declared.switch)
    fitting = [name for name, row in switches().items() if row.use is Use.MANAGEMENT]
    if known is None or known.use is not Use.MANAGEMENT or known.rack_units is None:
        cause = f"`{declared.switch}` is not a management switch of the catalogue"
        hint = did_you_mean_model(declared.switch, fitting, hint_to_add("switches", declared.switch))
        yield Violation("fabric.management_network.switch", cause, hint)
    without = [member.name for member in case.members if _rack(case, member) is None]
    if without:
        more = f" and {len(without) - 1} more have" if len(without) > 1 else " has"
        yield Violation("fabric.management_network", f"{without[0]}{more} no rack, so their cables would be missing", "declare `rack:`")
