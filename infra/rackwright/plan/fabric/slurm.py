"""Slurm topology of the fabric: nodes that share leaves, or an NVLink domain, so that Slurm places jobs close together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rackwright.model.base import ConfigModel
from rackwright.model.hostlists import compressed
from rackwright.plan.fabric.schema import FabricPlan

if TYPE_CHECKING:
    from rackwright.plan.schema import PlanNode

TREE: Final = "topology/tree"
BLOCK: Final = "topology/block"
_TOP: Final = "spine"
_CORE: Final = "core"
_APART: Final = "apart"


class Topology(ConfigModel):
    """A topology plugin and its topology.conf."""

    plugin: str
    lines: tuple[str, ...]


def topology(
    fabric: FabricPlan | None, places: Mapping[str, int], nodes: Sequence[str], domains: Mapping[str, int] | None = None
) -> Topology | None:
    """Return the topology of the scheduler's nodes; None where all of them share their leaves, since Slurm has no choice then.

    `places`: node -> its place in the fabric; a node without one is on a switch of its own below the same top, so that jobs may span both.
    `domains`: node -> its NVLink domain.
    """
    if fabric is None:
        return None
    if fabric.nvlink_domain:
        return _blocks(_together(domains or {}, nodes))
    units = _together({node: place // fabric.per_unit for node, place in places.items()}, nodes)
    if len(units) < 2:
        return None
    apart = [node for node in nodes if node not in places]
    leaves = {unit_name(fabric, unit): members for unit, members in units.items()} | ({_APART: apart} if apart else {})
    lines = [f"SwitchName={name} Nodes={compressed(members)}" for name, members in leaves.items()]
    below: dict[str, list[str]] = {}
    for unit in units:
        below.setdefault(pod_name(fabric.pod_of(unit)), []).append(unit_name(fabric, unit))
    if fabric.pods is None or len(below) < 2:
        return Topology(plugin=TREE, lines=(*lines, f"SwitchName={_TOP} Switches={','.join(leaves)}"))
    pods = [f"SwitchName={pod} Switches={','.join(members)}" for pod, members in below.items()]
    return Topology(plugin=TREE, lines=(*lines, *pods, f"SwitchName={_CORE} Switches={','.join([*below, *([_APART] if apart else [])])}"))


def unit_name(fabric: FabricPlan, unit: int) -> str:
    """Return the name of a unit: a set of leaves, one for each rail, or one leaf."""
    return f"su{unit + 1}" if fabric.leaves_per_unit > 1 else f"leaf-{unit + 1:02}"


def pod_name(pod: int) -> str:
    """Return the name of a pod: the spines that its units share."""
    return f"pod{pod + 1}"


def domains_of(fabric: FabricPlan | None, nodes: Iterable[PlanNode]) -> dict[str, int]:
    """Return node -> its NVLink domain, counted within its group: a rack is filled with a group's nodes, independent of their places."""
    if fabric is None or fabric.nvlink_domain is None:
        return {}
    return {node.name: fabric.domains[node.group] + node.index // fabric.nvlink_domain for node in nodes if node.group in fabric.domains}


def domain_name(domain: int) -> str:
    """Return the name of an NVLink domain."""
    return f"nvl{domain + 1}"


def _blocks(domains: Mapping[int, Sequence[str]]) -> Topology | None:
    """Return one block for each NVLink domain. Jobs are packed by the size of the smallest: slurmctld exits on a block with fewer nodes."""
    if not domains:
        return None
    lines = [f"BlockName={domain_name(domain)} Nodes={compressed(members)}" for domain, members in domains.items()]
    return Topology(plugin=BLOCK, lines=(*lines, f"BlockSizes={min(map(len, domains.values()))}"))


def _together(numbers: Mapping[str, int], nodes: Iterable[str]) -> dict[int, list[str]]:
    """Return number -> its nodes."""
    found: dict[int, list[str]] = {}
    for node in nodes:
        if node in numbers:
            found.setdefault(numbers[node], []).append(node)
    return dict(sorted(found.items()))
