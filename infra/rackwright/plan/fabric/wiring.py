"""Switches and cables between the HCAs of a plan's nodes, computed from the fabric's measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from rackwright.model.fabric.switches import FabricTopology
from rackwright.plan.fabric.schema import FabricPlan

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan, PlanNode


class Level(StrEnum):
    """Level of a switch in the tree."""

    LEAF = "leaf"
    SPINE = "spine"
    CORE = "core"


class Switch(NamedTuple):
    """A switch by its place in the fabric."""

    name: str
    level: Level
    number: int
    """From 0 among the switches of its level, over the whole layout."""


class Cable(NamedTuple):
    """One cable; the end nearer to the nodes first."""

    device: str
    """`worker0/mlx5_3`, or a leaf."""
    port: int
    switch: str
    switch_port: int
    rail: int | None
    """None between switches, and of the subnet manager's own HCA."""

    def row(self) -> str:
        """Return both ends in the inventory's format.

        >>> Cable("worker0/mlx5_3", 1, "leaf-su1-r3", 1, 3).row()
        'worker0/mlx5_3:1 leaf-su1-r3:1'
        """
        return f"{self.device}:{self.port} {self.switch}:{self.switch_port}"


class NodePlacement(NamedTuple):
    """A node's place in the fabric."""

    node: str
    place: int


@dataclass(frozen=True)
class Wiring:
    """Nodes, switches and cables of a fabric."""

    placements: tuple[NodePlacement, ...]
    switches: tuple[Switch, ...]
    cables: tuple[Cable, ...]

    def of(self, level: Level) -> tuple[Switch, ...]:
        """Return the leaves or the spines."""
        return tuple(switch for switch in self.switches if switch.level is level)


def wiring(plan: Plan) -> Wiring:
    """Return the wiring of the plan's nodes, nodes that are out included: they remain plugged in. Empty without a fabric."""
    return wire_placements(plan.fabric, placements(plan)) if plan.fabric else Wiring((), (), ())


def placements(plan: Plan) -> tuple[NodePlacement, ...]:
    """Return the places of the plan's nodes."""
    return placements_of(plan.fabric, plan.nodes) if plan.fabric else ()


def placements_of(fabric: FabricPlan, nodes: Iterable[PlanNode]) -> tuple[NodePlacement, ...]:
    """Return the places of some nodes."""
    return tuple(NodePlacement(node.name, fabric.places[node.group] + node.index) for node in nodes if node.group in fabric.places)


def wire_placements(fabric: FabricPlan, placements: tuple[NodePlacement, ...]) -> Wiring:
    """Return the wiring of some placements."""
    units = occupied_units(fabric, placements)
    leaves = [leaf for unit in units for leaf in leaves_of(fabric, unit)]
    if fabric.spare and 0 not in units:
        leaves.insert(0, _managing(fabric))
    pods = sorted({_pod_of_leaf(fabric, leaf) for leaf in leaves})
    spines = [spine for pod in pods for spine in spines_of(fabric, pod)]
    cores = cores_of(fabric) if leaves else []
    cables = (*_down(fabric, placements), *_service(fabric), *_up(fabric, leaves), *_to_cores(fabric, pods))
    return Wiring(placements, (*leaves, *spines, *cores), cables)


def occupied_units(fabric: FabricPlan, placements: tuple[NodePlacement, ...]) -> list[int]:
    """Return the scalable units that have nodes."""
    return sorted({placement.place // fabric.per_unit for placement in placements})


def leaf_name(fabric: FabricPlan, unit: int, rail: int) -> str:
    """Return the name of the leaf for a rail of a unit."""
    return f"leaf-su{unit + 1}-r{rail}" if fabric.topology is FabricTopology.RAIL_OPTIMISED else f"leaf-{unit + 1:02}"


def leaves_of(fabric: FabricPlan, unit: int) -> list[Switch]:
    """Return the leaves that the nodes of a unit share."""
    count = fabric.leaves_per_unit
    return [Switch(leaf_name(fabric, unit, number), Level.LEAF, unit * count + number) for number in range(count)]


def spines_of(fabric: FabricPlan, pod: int = 0) -> list[Switch]:
    """Return the spines of a pod; they exist from its first leaf on. Without pods, these are all spines."""
    of_pod = f"p{pod + 1}-" if fabric.pods else ""
    return [Switch(f"spine-{of_pod}{number + 1:02}", Level.SPINE, pod * fabric.spines + number) for number in range(fabric.spines)]


def cores_of(fabric: FabricPlan) -> list[Switch]:
    """Return all cores; they exist from the first leaf on. Those of one number connect the spines of this number."""
    each = fabric.pods.cores if fabric.pods else 0
    return [
        Switch(f"core-{number + 1:02}-{core + 1}", Level.CORE, number * each + core)
        for number in range(fabric.spines)
        for core in range(each)
    ]


def _pod_of_leaf(fabric: FabricPlan, leaf: Switch) -> int:
    return fabric.pod_of(leaf.number // fabric.leaves_per_unit)


def _down(fabric: FabricPlan, placements: tuple[NodePlacement, ...]) -> Iterator[Cable]:
    """Yield cables from HCAs to leaves: the place determines the port, or the half of one."""
    together = fabric.rails // fabric.leaves_per_unit
    leaves: dict[int, list[str]] = {}
    for node, place in placements:
        unit, slot = divmod(place, fabric.per_unit)
        if unit not in leaves:
            leaves[unit] = [leaf_name(fabric, unit, rail) for rail in range(len(fabric.hcas))]
        for rail, hca in enumerate(fabric.hcas):
            yield Cable(f"{node}/{hca}", 1, leaves[unit][rail], slot * together + rail % together + 1, rail)


def splitter_of(fabric: FabricPlan, cable: Cable) -> str:
    """Return the port of a leaf, as the panel counts it, that an HCA's cable shares with another one; empty if it shares none.

    >>> splitter_of(FabricPlan.model_construct(split=2), Cable("worker1/mlx5_0", 1, "leaf-01", 6, 0))
    'leaf-01:3'
    """
    if fabric.split == 1 or "/" not in cable.device:
        return ""
    return f"{cable.switch}:{(cable.switch_port - 1) // fabric.split + 1}"


def _managing(fabric: FabricPlan) -> Switch:
    """Return the leaf of a subnet manager that is no node of the fabric: always the first one, so that it remains plugged in there.

    The leaf exists from the start, even if its unit has no nodes yet: those are the first group's, and another may precede it.
    """
    return leaves_of(fabric, 0)[0]


def _service(fabric: FabricPlan) -> Iterator[Cable]:
    """Yield the cable of the only HCA of such a subnet manager, at the last port; if ports are split, at its first half."""
    if fabric.spare:
        yield Cable(f"{fabric.subnet_manager}/{fabric.hcas[0]}", 1, _managing(fabric).name, fabric.leaf_port(fabric.ports), None)


def _up(fabric: FabricPlan, leaves: list[Switch]) -> Iterator[Cable]:
    """Yield cables from leaves to spines: on either side the port follows from the other's number, laid out for the final size."""
    links, first = fabric.links, ceil(fabric.downlinks / fabric.split) + 1
    spines = {pod: [spine.name for spine in spines_of(fabric, pod)] for pod in {_pod_of_leaf(fabric, leaf) for leaf in leaves}}
    ports = [fabric.leaf_port(first + number) for number in range(fabric.spines * links)]
    for leaf in leaves:
        pod = _pod_of_leaf(fabric, leaf)
        place = leaf.number - pod * (fabric.pods.units if fabric.pods else 0) * fabric.leaves_per_unit
        for number, spine in enumerate(spines[pod]):
            for link in range(links):
                yield Cable(leaf.name, ports[number * links + link], spine, place * links + link + 1, None)


def _to_cores(fabric: FabricPlan, pods: list[int]) -> Iterator[Cable]:
    """Yield cables from spines to cores: a spine's last ports lead up, and a core's ports are counted by pod."""
    if fabric.pods is None:
        return
    cores = cores_of(fabric)
    for pod in pods:
        for number, spine in enumerate(spines_of(fabric, pod)):
            for core in range(fabric.pods.cores):
                above, links = cores[number * fabric.pods.cores + core], fabric.pods.links(core)
                for place, link in enumerate(links):
                    yield Cable(spine.name, fabric.ports - fabric.pods.uplinks + link + 1, above.name, pod * len(links) + place + 1, None)
