"""`rackwright cost`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rackwright.cli.progress import show_warning

_SCHEMA = "rackwright.cost/2"


def cost(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    against: Annotated[
        str | None,
        typer.Option("--against", help="Compare owned machines with this stack (default: the same GPUs on EC2)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print figures and their sources as JSON (schema {_SCHEMA}).")] = False,
) -> None:
    """Show the cost of a running stack: list prices with their sources, or the cost of owned machines."""
    from rackwright.cli.render import cost as render_cost
    from rackwright.operations.cost import stack_cost

    found = stack_cost(stack, against, show_warning)
    if as_json:
        print(json.dumps({"schema": _SCHEMA, **render_cost.data(found)}, indent=2))
    else:
        render_cost.show(found)
