"""`rackwright plan`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rackwright.cli.progress import show_warning
from rackwright.cli.render import plan as render_plan
from rackwright.operations.stack import load_plan


def plan(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the complete plan as JSON.")] = False,
) -> None:
    """Show the nodes, addresses, storage and queues that a stack file expands to."""
    expanded = load_plan(stack, show_warning)
    print(json.dumps(expanded.to_data(), indent=2) if as_json else render_plan.text(expanded))
