"""`rackwright cost`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rackwright.cli.stack import planned
from rackwright.cli.table import table
from rackwright.plan import Plan

_HOURS = 24


def cost(
    stack: Annotated[str, typer.Argument(help="A stack's name, or a file's path.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print figures with their sources.")] = False,
) -> None:
    """What a stack costs while it is up."""
    expanded = planned(stack)
    print(json.dumps(_data(expanded), indent=2) if as_json else _text(expanded))


def _data(plan: Plan) -> dict[str, Any]:
    per_hour = plan.cost.usd_per_hour
    lines = plan.cost.model_dump(mode="json")["lines"]
    return {"stack": plan.stack, "usd_per_hour": per_hour, "usd_per_day": per_hour * _HOURS, "lines": lines}


def _text(plan: Plan) -> str:
    rows = [[line.group, line.count, f"{line.usd_per_hour:.2f}", line.source] for line in plan.cost.lines]
    total = f"stack {plan.stack}: {plan.cost.usd_per_hour:.2f} USD per hour, {plan.cost.usd_per_hour * _HOURS:.2f} USD per day"
    return f"{table(['group', 'nodes', 'USD/h', 'source'], rows)}\n\n{total}"
