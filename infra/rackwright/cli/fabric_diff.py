"""`rackwright fabric diff`: compare a discovered fabric with the plan."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rackwright.cli.fabric_options import SCHEMA, AsJson, Stack
from rackwright.cli.progress import show_warning

if TYPE_CHECKING:
    from rackwright.operations.fabric import FabricComparison

_DIFFERS: Final = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""
_SHOWN: Final = 40
"""Maximum number of differences to list; an entirely different fabric has thousands."""
_NAMED: Final = 3
"""Maximum number of devices outside the plan to name."""


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
    from rackwright.operations.fabric import compare_fabric

    found = compare_fabric(stack, file, show_warning, node_name_map=node_name_map, ports=ports)
    if as_json:
        print(json.dumps(_data(found), indent=2))
    elif found.differences or found.is_complete:
        print("\n".join(_lines(found)))
    found.require_complete()
    raise typer.Exit(_DIFFERS if found.differences else 0)


def _data(found: FabricComparison) -> dict[str, Any]:
    differences, others = ([one.as_dict() for one in rows] for rows in (found.differences, found.comparison.others))
    return {"schema": SCHEMA, "stack": found.stack, "cables": found.cables, "differences": differences, "other_links": others}


def _lines(found: FabricComparison) -> Iterable[str]:
    if not found.differences:
        yield f"all {found.cables} cables are connected as planned"
    yield from map(str, found.differences[:_SHOWN])
    if len(found.differences) > _SHOWN:
        yield f"and {len(found.differences) - _SHOWN} more"
    if others := found.comparison.others:
        yield f"{len(others)} link(s) of devices outside the plan, at free ports: {', '.join(str(one.end) for one in others[:_NAMED])}" + (
            " …" if len(others) > _NAMED else ""
        )
