"""Output of `rackwright cost`: one line for each item, the totals and the sources of the prices, in 80 columns; and JSON data."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from rackwright.derive.cost import Cost, CostLine
from rackwright.derive.ownership_cost import OwnershipCost, RentalPrice
from rackwright.model.cluster import Cluster
from rackwright.model.units import format_seconds
from rackwright.operations.cost import StackCost

_HOURS = 24
"""Hours per day."""


def show(found: StackCost, console: Console | None = None) -> None:
    """Print the bill."""
    console = console or Console(highlight=False, markup=False, emoji=False)
    cost = found.cost
    sources = list(dict.fromkeys(_source(line) for line in cost.lines))
    console.print(_table(cost, sources))
    console.print()
    _say(console, *(f"[{number}] {source}" for number, source in enumerate(sources, 1)))
    _say(console, *(f"    {note}" for note in cost.notes))
    if found.owned is not None:
        console.print()
        _say(console, *_balance(found.owned, found.rented))
    console.print()
    _say(console, *_sums(found.stack, found.cluster, cost))


def data(found: StackCost) -> dict[str, Any]:
    """Return all figures and their sources, for JSON."""
    ttl = found.cluster.budget.ttl if found.cluster.budget else None
    figures = {
        "stack": found.stack,
        "complete": found.cost.complete,
        "usd_per_hour": found.cost.usd_per_hour,
        "usd_per_day": round(found.cost.usd_per_hour * _HOURS, 6),
        "usd_up_front": found.cost.usd_up_front,
        "ttl_s": ttl,
        "usd_for_ttl": found.cost.total(ttl / 3600) if ttl else None,
        "lines": found.cost.model_dump(mode="json")["lines"],
        "notes": list(found.cost.notes),
    }
    if found.owned is not None:
        rented = found.rented
        versus = {**asdict(rented), "break_even_months": found.owned.break_even_months(rented)} if rented else None
        figures["ownership_cost"] = {**asdict(found.owned), "against": versus}
    return figures


def _say(console: Console, *sentences: str) -> None:
    for sentence in sentences:
        console.print(textwrap.fill(sentence, console.width, subsequent_indent="    ", break_on_hyphens=False), soft_wrap=True)


def _table(cost: Cost, sources: list[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    for head, right in (("for", False), ("n", True), ("what", False), ("USD/h", True), ("from", False), ("remark", False)):
        table.add_column(head, justify="right" if right else "left", no_wrap=head != "remark" and head != "what")
    for line in cost.lines:
        table.add_row(
            line.group, str(line.count), line.item or "-", _usd(line), f"[{sources.index(_source(line)) + 1}]", line.remark or "-"
        )
    return table


def _usd(line: CostLine) -> str:
    return "?" if not line.known else "-" if line.usd_per_hour is None else f"{line.usd_per_hour:.4f}"


def _source(line: CostLine) -> str:
    return ", ".join(part for part in (line.source, line.region, line.date) if part)


def _sums(stack: str, cluster: Cluster, cost: Cost) -> list[str]:
    if not any(line.known for line in cost.lines):
        return [f"stack {stack}: cost unknown, no price is known"]
    least = "" if cost.complete else "at least "
    hourly = cost.usd_per_hour
    said = []
    if cost.usd_up_front:
        said.append(f"up front: {cost.usd_up_front:.2f} USD")
    ttl = cluster.budget.ttl if cluster.budget else None
    if ttl:
        said.append(f"total for its TTL of {format_seconds(ttl)}: {least}{cost.total(ttl / 3600):.2f} USD")
    if not cost.complete:
        said.append("at least one price is unknown (?): every total is a lower bound")
    return [*said, f"stack {stack}: {least}{hourly:.2f} USD per hour, {least}{hourly * _HOURS:.2f} USD per day"]


def _balance(own: OwnershipCost, rented: RentalPrice | None) -> list[str]:
    said = [f"purchase price {own.usd_bought:,.0f} USD; power {own.power_usd_per_hour:.3f} USD per hour"]
    said += [f"{rack}: {kilowatts:.2f} kW" for rack, kilowatts in own.kw_by_rack.items()]
    if own.usd_per_gpu_hour is None:
        return said
    said.append(f"cost per GPU-hour: {own.usd_per_gpu_hour:.3f} USD with {own.gpus} GPUs, {own.utilisation:.0%} utilised")
    if rented is None:
        return [
            *said,
            "no break-even: no EC2 instance type with this GPU has a known price; pass `--against STACK` to compare with a stack",
        ]
    months = own.break_even_months(rented)
    verdict = f"owning is cheaper after {months:.1f} months" if months else "renting is always cheaper: power alone costs more"
    return [*said, f"compared with {rented.name} at {rented.usd_per_hour:.2f} USD per hour ({rented.source}): {verdict}"]
