"""The management plane: every node's own port, its management controller's, and the fabric switches' own, on switches in their racks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rackwright.plan.fabric.physical import node_racks, positions
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.wiring import Cable, Wiring

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan


class RackSwitch(NamedTuple):
    """A management switch and its rack."""

    name: str
    rack: str


class ManagementWiring(NamedTuple):
    """The plane: its switches and cables. The uplinks of its switches belong to the site."""

    switches: tuple[RackSwitch, ...]
    cables: tuple[Cable, ...]


def management(plan: Plan, laid: Wiring) -> ManagementWiring:
    """Return the management plane of all nodes of the plan and of further nodes in the wiring; empty if none is declared."""
    fabric = plan.fabric
    if fabric is None or fabric.management is None:
        return ManagementWiring((), ())
    there = {switch.name for switch in laid.switches}
    switches: list[RackSwitch] = []
    cables: list[Cable] = []
    for rack, ports in _by_rack(plan, fabric, laid).items():
        for number, port in enumerate(ports):
            shelf, slot = divmod(number, fabric.management.ports)
            # No rack has a dot in its name, but one may be called r1-2.
            name = f"mgmt-{rack}" if shelf == 0 else f"mgmt-{rack}.{shelf + 1}"
            owner, kind = port.split("/")
            if kind != "mgmt" or owner in there:
                cables.append(Cable(port, 1, name, slot + 1, None))
                switches.append(RackSwitch(name, rack))
    return ManagementWiring(tuple(dict.fromkeys(switches)), tuple(cables))


def _by_rack(plan: Plan, fabric: FabricPlan, laid: Wiring) -> dict[str, list[str]]:
    """Return rack -> ports of its switches, in their order: fabric switches, future ones included, then nodes."""
    found: dict[str, list[str]] = {}
    for name, position in positions(fabric).items():
        found.setdefault(position.rack, []).append(f"{name}/mgmt")
    racks = node_racks(plan, laid.placements)
    for node in _nodes(plan, laid):
        if node in racks:
            found.setdefault(racks[node], []).extend(_ports(fabric, node))
    return found


def _nodes(plan: Plan, laid: Wiring) -> Iterator[str]:
    yield from (node.name for node in plan.nodes)
    yield from (placement.node for placement in laid.placements if placement.node not in plan.by_name)


def _ports(fabric: FabricPlan, node: str) -> list[str]:
    assert fabric.management is not None
    return [f"{node}/lan", *([f"{node}/bmc"] if fabric.management.bmc else [])]
