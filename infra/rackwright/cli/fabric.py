"""`rackwright fabric`: plan the GPU network of a stack file and compare it with a real one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.fabric_diff import diff
from rackwright.cli.fabric_options import SCHEMA, AsJson, Nodes, Stack
from rackwright.cli.progress import show_warning
from rackwright.operations.fabric import plan_with_fabric

fabric = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Plan the GPU network of a stack file: switches, cables, growth; compare it with a real one.",
)
fabric.callback()(lambda: None)


fabric.command("diff")(diff)


@fabric.command("plan")
def plan_(stack: Stack, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """Show switches, cables, bisection bandwidth and the parts that growth adds."""
    from rackwright.plan.fabric.summary import sections, summary

    plan = plan_with_fabric(stack, show_warning)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, **summary(plan, nodes)}, indent=2))
    else:
        from rackwright.cli.render.table import table

        print("\n\n".join(table(*part) if isinstance(part, tuple) else part for part in sections(plan, nodes)))


@fabric.command("cables")
def cables_(stack: Stack, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """List every cable of both planes with its ends, racks and length, as CSV."""
    from rackwright.plan.fabric.cable_list import as_csv, rows

    plan = plan_with_fabric(stack, show_warning)
    found = rows(plan, nodes)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, "cables": [asdict(row) for row in found]}, indent=2))
    else:
        print(as_csv(found), end="")


@fabric.command("svg")
def svg_(
    stack: Stack,
    nodes: Nodes = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", help="Output file (default: standard output).")] = None,
) -> None:
    """Draw racks, leaves, spines and both planes as SVG."""
    from rackwright.plan.fabric.svg import picture

    text = picture(plan_with_fabric(stack, show_warning), nodes)
    if file is None:
        print(text, end="")
    else:
        _write(file, text)


def _write(file: Path, text: str) -> None:
    from rackwright.errors import InputError

    try:
        file.write_text(text, encoding="utf-8")
    except OSError as refused:
        raise InputError(str(refused), path=str(file), hint="pass a file in a writable folder") from None
