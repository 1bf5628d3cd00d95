"""The GPU network of a stack: its plan, and its comparison with a discovered fabric."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.contract import declared_guids
from rackwright.operations.stack import OnWarning, load_plan
from rackwright.plan import Plan
from rackwright.plan.fabric.growth import fabric_of
from rackwright.plan.fabric.netlist import port_guids
from rackwright.plan.fabric.wiring import wiring
from rackwright.report.fabric.adapter_ports import NodePorts, read_node_ports
from rackwright.report.fabric.comparison import Comparison, Difference, compare
from rackwright.report.fabric.ibnetdiscover import FabricLinks, read_links, read_node_names


@dataclass(frozen=True, slots=True)
class FabricComparison:
    """The planned cables of a stack compared with a discovered fabric."""

    stack: str
    source: str
    """File that the fabric was read from; `-` is standard input."""
    cables: int
    """Number of planned cables."""
    comparison: Comparison

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The cables that are not as planned."""
        return self.comparison.differences

    @property
    def is_complete(self) -> bool:
        """Return whether every planned cable could be compared."""
        return not self.comparison.unknown

    def require_complete(self) -> None:
        """Raise UndeterminedError if a planned cable could not be compared, because several devices could be its end."""
        if not self.is_complete:
            hint = "pass the adapters' GUIDs with `--ports` (`pdsh -w NODES ibstat`), and names of switches by GUID with `--node-name-map`"
            if self.comparison.live.unplaced:
                hint = f"compare the cables of switches with several chips by hand; for other devices, {hint}"
            if self.comparison.live.links.is_incomplete:
                hint = f"run `ibnetdiscover -p` again; {hint}"
            raise UndeterminedError(self.comparison.why_unknown, path=self.source, hint=hint)


def plan_with_fabric(name_or_path: str, on_warning: OnWarning) -> Plan:
    """Return the plan of the stack file; raise InputError if the file is invalid or the stack has no fabric."""
    plan = load_plan(name_or_path, on_warning)
    fabric_of(plan)
    return plan


def compare_fabric(
    name_or_path: str, file: str, on_warning: OnWarning, *, node_name_map: str | None = None, ports: str | None = None
) -> FabricComparison:
    """Compare the output of `ibnetdiscover -p` with the plan; `-` reads standard input.

    `node_name_map` is a file with names by GUID, `ports` one with the output of `pdsh -w NODES ibstat`.

    Raises InputError for an invalid stack file, a stack without a fabric, a file that cannot be read or has no names or ports, and
    UndeterminedError if the output is empty, truncated or has another format.
    """
    plan = plan_with_fabric(name_or_path, on_warning)
    links = _discovered(file)
    if node_name_map is not None:
        links = links.renamed(_node_names(node_name_map))
    rows = [cable.row() for cable in wiring(plan).cables]
    return FabricComparison(plan.stack, file, len(rows), _compared(plan, rows, links, _node_ports(ports) if ports else None))


def _compared(plan: Plan, rows: list[str], links: FabricLinks, ports: NodePorts | None) -> Comparison:
    assert plan.fabric is not None
    declared = {name: int(guid, 16) for name, guid in declared_guids(plan).items()}
    guids = (port_guids(plan) if plan.fabric.simulated else {}) | (ports.guids if ports else {}) | declared
    hidden = ports.virtual if ports else frozenset()
    rate, between = plan.fabric.hca_rate, f"{plan.fabric.switch_width} {plan.fabric.speed}"
    return compare(rows, links, guids=guids, hidden=hidden, rate=rate, switch_rate=between, line_card=plan.fabric.line_card or "")


def _discovered(file: str) -> FabricLinks:
    """Return the fabric in the file; raise UndeterminedError if the file is empty, truncated or has another format."""
    try:
        return read_links(_read(file, "pass a file with the output of `ibnetdiscover -p`"))
    except ValueError as unreadable:
        hint = "run `ibnetdiscover -p` again on a node with an active port, and save its complete output"
        raise UndeterminedError(str(unreadable), path=file, hint=hint) from None


def _node_names(file: str) -> dict[int, str]:
    """Return the names by GUID; raise InputError if the file is no node-name map."""
    hint = 'pass a file with lines such as `0xfc6a1c0300000200 "spine-01"`'
    try:
        return read_node_names(_read(file, hint))
    except ValueError as unreadable:
        raise InputError(str(unreadable), path=file, hint=hint) from None


def _node_ports(file: str) -> NodePorts:
    """Return the GUIDs of the nodes' ports; raise InputError if the file has none."""
    hint = "pass a file with the output of `pdsh -w NODES ibstat`, whose lines begin with the node"
    try:
        return read_node_ports(_read(file, hint))
    except ValueError as unreadable:
        raise InputError(str(unreadable), path=file, hint=hint) from None


def _read(file: str, hint: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InputError(str(unreadable), path=file, hint=hint) from None
