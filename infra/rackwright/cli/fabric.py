"""`rackwright fabric STACK`: the network between the GPUs as it is to be, and whether a real one is so."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rackwright.cli.stack import planned

if TYPE_CHECKING:
    from rackwright.plan import Plan
    from rackwright.report.fabric import Difference, Live

SCHEMA: Final = "rackwright.fabric/1"
_DIFFERS: Final = 1
_SHOWN: Final = 40
"""Differences listed one by one; a fabric that is something else altogether has thousands."""

fabric = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="The fabric a stack file stands for: what to buy, what to plug in where, what comes when it grows, and whether it is so.",
)
Nodes = Annotated[int | None, typer.Option("--nodes", help="Look at it with so many nodes, and at what is added for them.")]
AsJson = Annotated[bool, typer.Option("--json", help=f"The same as JSON ({SCHEMA}).")]


@fabric.callback()
def _stack(context: typer.Context, stack: Annotated[str, typer.Argument(help="A stack's name, or a file's path.")]) -> None:
    context.obj = stack


def _planned(context: typer.Context) -> Plan:
    from rackwright.plan.fabric.growth import fabric_of

    plan = planned(context.obj)
    fabric_of(plan)
    return plan


@fabric.command("plan")
def plan_(context: typer.Context, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """Switches, cables, bisection, and what growth adds."""
    from rackwright.plan.fabric.summary import sections, summary

    plan = _planned(context)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, **summary(plan, nodes)}, indent=2))
    else:
        from rackwright.cli.table import table

        print("\n\n".join(table(*part) if isinstance(part, tuple) else part for part in sections(plan, nodes)))


@fabric.command("cables")
def cables_(context: typer.Context, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """Every cable of both planes with its ends, racks and length, as CSV."""
    from rackwright.plan.fabric.listing import as_csv, rows

    plan = _planned(context)
    found = rows(plan, nodes)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, "cables": [asdict(row) for row in found]}, indent=2))
    else:
        print(as_csv(found), end="")


@fabric.command("diff")
def diff_(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="What `ibnetdiscover -p` printed; - reads it from standard input.")],
    as_json: AsJson = False,
) -> None:
    """Compare a fabric that was discovered with the plan.

    Exit codes: 0 every cable is where it should be, 1 some are not, 2 bad input, 3 the file does not tell.
    """
    from rackwright.plan.fabric.wiring import wiring
    from rackwright.report.fabric import differences

    plan = _planned(context)
    assert plan.fabric is not None
    laid = wiring(plan)
    found = differences((cable.row() for cable in laid.cables), _discovered(file), f"{plan.fabric.width} {plan.fabric.speed}")
    if as_json:
        told = {"schema": SCHEMA, "stack": plan.stack, "cables": len(laid.cables), "differences": [row.as_dict() for row in found]}
        print(json.dumps(told, indent=2))
    else:
        print("\n".join(_told(found)) or f"all {len(laid.cables)} cables are where they should be")
    raise typer.Exit(_DIFFERS if found else 0)


def _told(found: tuple[Difference, ...]) -> Iterable[str]:
    yield from map(str, found[:_SHOWN])
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more"


def _discovered(file: str) -> Live:
    """The fabric in the file; CouldNotTell where it is empty, cut off or something else."""
    from rackwright.errors import CouldNotTell
    from rackwright.report.fabric import read

    try:
        return read(_read(file))
    except ValueError as unreadable:
        again = "run `ibnetdiscover -p` again, on a node whose port is active, and keep all of its output"
        raise CouldNotTell(str(unreadable), path=file, hint=again) from None


def _read(file: str) -> str:
    from rackwright.errors import BadInput

    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise BadInput(str(unreadable), path=file, hint="give a file with the output of `ibnetdiscover -p`") from None


@fabric.command("svg")
def svg_(
    context: typer.Context,
    nodes: Nodes = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", help="Write it there instead of printing it.")] = None,
) -> None:
    """A picture: racks, leaves, spines, both planes."""
    from rackwright.plan.fabric.picture import picture

    text = picture(_planned(context), nodes)
    if file is None:
        print(text, end="")
    else:
        _write(file, text)


def _write(file: Path, text: str) -> None:
    from rackwright.errors import BadInput

    try:
        file.write_text(text, encoding="utf-8")
    except OSError as refused:
        raise BadInput(str(refused), path=str(file), hint="name a file in a folder that you may write to") from None
