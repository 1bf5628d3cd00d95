"""`rackwright cost`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rackwright.operations.stack import require_valid

if TYPE_CHECKING:
    from rackwright.derive.cost import Cost
    from rackwright.derive.ownership_cost import OwnershipCost, Rented
    from rackwright.model.cluster import Cluster

_SCHEMA = "rackwright.cost/1"
_HOURS = 24
"""Hours per day."""


def cost(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    against: Annotated[
        str | None,
        typer.Option("--against", help="Compare owned machines with this stack (default: the same GPUs on EC2)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print figures and their sources as JSON (schema {_SCHEMA}).")] = False,
) -> None:
    """Show the cost of a running stack: list prices with their sources, or the cost of owned machines."""
    from rackwright.derive.cost import cost as costs_of
    from rackwright.derive.ownership_cost import balance

    name, cluster = require_valid(stack)
    found, own = costs_of(cluster), balance(cluster)
    rented = _rented(cluster, against) if own else None
    if as_json:
        print(json.dumps(_data(name, cluster, found, own, rented), indent=2))
    else:
        from rackwright.cli.render import cost as render_cost

        render_cost.show(name, cluster, found, own, rented)


def _rented(cluster: Cluster, against: str | None) -> Rented | None:
    from rackwright.derive.cost import cost as costs_of
    from rackwright.derive.ownership_cost import Rented, equivalent_instances

    if against is None:
        return equivalent_instances(cluster)
    name, other = require_valid(against)
    there = costs_of(other)
    return Rented(f"stack {name}", there.usd_per_hour, "sources: see its lines" if there.complete else "a price is missing: lower bound")


def _data(stack: str, cluster: Cluster, found: Cost, own: OwnershipCost | None, rented: Rented | None) -> dict[str, Any]:
    ttl = cluster.budget.ttl if cluster.budget else None
    told = {
        "schema": _SCHEMA,
        "stack": stack,
        "complete": found.complete,
        "usd_per_hour": found.usd_per_hour,
        "usd_per_day": round(found.usd_per_hour * _HOURS, 6),
        "usd_up_front": found.usd_up_front,
        "ttl_s": ttl,
        "usd_for_ttl": found.total(ttl / 3600) if ttl else None,
        "lines": found.model_dump(mode="json")["lines"],
        "notes": list(found.notes),
    }
    if own is not None:
        versus = {**asdict(rented), "break_even_months": own.break_even_months(rented)} if rented else None
        told["economics"] = {**asdict(own), "against": versus}
    return told
