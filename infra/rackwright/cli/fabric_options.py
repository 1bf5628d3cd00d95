"""Arguments and options that the commands of `rackwright fabric` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rackwright.operations.stack import planned

if TYPE_CHECKING:
    from rackwright.plan import Plan

SCHEMA: Final = "rackwright.fabric/1"

Stack = Annotated[str, typer.Argument(help="Stack name or path of a stack file.")]
Nodes = Annotated[int | None, typer.Option("--nodes", help="Plan for N nodes and list the additional parts.")]
AsJson = Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")]


def plan_with_fabric(stack: str) -> Plan:
    """Return the plan of the stack file; raise InputError if the file is invalid or the stack has no fabric."""
    from rackwright.plan.fabric.growth import fabric_of

    plan = planned(stack)
    fabric_of(plan)
    return plan
