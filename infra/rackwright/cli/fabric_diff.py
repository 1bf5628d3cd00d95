"""`rackwright fabric diff`: compare a discovered fabric with the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rackwright.cli.fabric_options import SCHEMA, AsJson, Stack, plan_with_fabric

if TYPE_CHECKING:
    from rackwright.plan import Plan
    from rackwright.report.fabric_diff import Comparison, Difference
    from rackwright.report.fabric_links import FabricLinks
    from rackwright.report.fabric_ports import NodePorts

_DIFFERS: Final = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""
_SHOWN: Final = 40
"""Maximum number of differences to list; an entirely different fabric has thousands."""


def diff(
    stack: Stack,
    file: Annotated[str, typer.Argument(help="Output of `ibnetdiscover -p`; - reads standard input.")],
    as_json: AsJson = False,
    node_name_map: Annotated[
        str | None, typer.Option("--node-name-map", help='Names by GUID, as in infiniband-diags(8): lines `<guid> "<name>"`.')
    ] = None,
    ports: Annotated[
        str | None, typer.Option("--ports", help="Output of `pdsh -w NODES ibstat`: the port GUIDs of the nodes' adapters.")
    ] = None,
) -> None:
    """Compare a discovered fabric with the plan.

    Devices are known by GUID where the plan, the nodes or the node-name map has it, else by description.

    Exit codes: 0 all cables as planned, 1 some differ, 2 invalid input, 3 file cannot be interpreted or devices cannot be identified.
    """
    from rackwright.plan.fabric.wiring import wiring

    plan = plan_with_fabric(stack)
    links = _discovered(file)
    if node_name_map is not None:
        links = links.renamed(_node_names(node_name_map))
    laid = wiring(plan)
    compared = _compared(plan, [cable.row() for cable in laid.cables], links, _node_ports(ports) if ports else None)
    found = compared.differences
    if as_json:
        document = {"schema": SCHEMA, "stack": plan.stack, "cables": len(laid.cables), "differences": [row.as_dict() for row in found]}
        print(json.dumps(document, indent=2))
    elif found or not compared.unknown:
        print("\n".join(_lines(found)) or f"all {len(laid.cables)} cables are connected as planned")
    _require_identified(compared, file)
    raise typer.Exit(_DIFFERS if found else 0)


def _compared(plan: Plan, rows: list[str], links: FabricLinks, ports: NodePorts | None) -> Comparison:
    from rackwright.plan.fabric.netlist import port_guids
    from rackwright.report.fabric_diff import compare

    assert plan.fabric is not None
    guids = (port_guids(plan) if plan.fabric.simulated else {}) | (ports.guids if ports else {})
    hidden = ports.virtual if ports else frozenset()
    rate, between = (f"{width} {plan.fabric.speed}" for width in (plan.fabric.width, plan.fabric.switch_width))
    return compare(rows, links, guids=guids, hidden=hidden, rate=rate, switch_rate=between, line_card=plan.fabric.line_card or "")


def _require_identified(compared: Comparison, file: str) -> None:
    """Raise UndeterminedError if a planned cable could not be compared, because several devices could be its end."""
    from rackwright.errors import UndeterminedError

    if compared.unknown:
        hint = "pass the adapters' GUIDs with `--ports` (`pdsh -w NODES ibstat`), and names of switches by GUID with `--node-name-map`"
        if compared.live.links.unread:
            hint = f"run `ibnetdiscover -p` again; {hint}"
        raise UndeterminedError(compared.why_unknown, path=file, hint=hint)


def _lines(found: tuple[Difference, ...]) -> Iterable[str]:
    yield from map(str, found[:_SHOWN])
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more"


def _discovered(file: str) -> FabricLinks:
    """Return the fabric in the file; raise UndeterminedError if the file is empty, truncated or has another format."""
    from rackwright.errors import UndeterminedError
    from rackwright.report.fabric_links import read_links

    try:
        return read_links(_read(file, "pass a file with the output of `ibnetdiscover -p`"))
    except ValueError as unreadable:
        hint = "run `ibnetdiscover -p` again on a node with an active port, and save its complete output"
        raise UndeterminedError(str(unreadable), path=file, hint=hint) from None


def _node_names(file: str) -> dict[int, str]:
    """Return the names by GUID; raise InputError if the file is no node-name map."""
    from rackwright.errors import InputError
    from rackwright.report.fabric_links import read_node_names

    hint = 'pass a file with lines such as `0xfc6a1c0300000200 "spine-01"`'
    try:
        return read_node_names(_read(file, hint))
    except ValueError as unreadable:
        raise InputError(str(unreadable), path=file, hint=hint) from None


def _node_ports(file: str) -> NodePorts:
    """Return the GUIDs of the nodes' ports; raise InputError if the file has none."""
    from rackwright.errors import InputError
    from rackwright.report.fabric_ports import read_node_ports

    hint = "pass a file with the output of `pdsh -w NODES ibstat`, whose lines begin with the node"
    try:
        return read_node_ports(_read(file, hint))
    except ValueError as unreadable:
        raise InputError(str(unreadable), path=file, hint=hint) from None


def _read(file: str, hint: str) -> str:
    from rackwright.errors import InputError

    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InputError(str(unreadable), path=file, hint=hint) from None
