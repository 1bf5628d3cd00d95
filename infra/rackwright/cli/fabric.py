"""`rackwright fabric STACK`: plan the GPU network and compare it with a real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rackwright.operations.stack import planned

if TYPE_CHECKING:
    from rackwright.plan import Plan
    from rackwright.report.fabric_diff import Difference, Live

SCHEMA: Final = "rackwright.fabric/1"
_DIFFERS: Final = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""
_SHOWN: Final = 40
"""Maximum number of differences to list; an entirely different fabric has thousands."""

fabric = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Plan the GPU network of a stack file: switches, cables, growth; compare it with a real one.",
)
Nodes = Annotated[int | None, typer.Option("--nodes", help="Plan for N nodes and list the additional parts.")]
AsJson = Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")]


@fabric.callback()
def _stack(context: typer.Context, stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")]) -> None:
    context.obj = stack


def _planned(context: typer.Context) -> Plan:
    from rackwright.plan.fabric.growth import fabric_of

    plan = planned(context.obj)
    fabric_of(plan)
    return plan


@fabric.command("plan")
def plan_(context: typer.Context, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """Show switches, cables, bisection bandwidth and the parts that growth adds."""
    from rackwright.plan.fabric.summary import sections, summary

    plan = _planned(context)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, **summary(plan, nodes)}, indent=2))
    else:
        from rackwright.cli.render.table import table

        print("\n\n".join(table(*part) if isinstance(part, tuple) else part for part in sections(plan, nodes)))


@fabric.command("cables")
def cables_(context: typer.Context, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """List every cable of both planes with its ends, racks and length, as CSV."""
    from rackwright.plan.fabric.cable_list import as_csv, rows

    plan = _planned(context)
    found = rows(plan, nodes)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, "cables": [asdict(row) for row in found]}, indent=2))
    else:
        print(as_csv(found), end="")


@fabric.command("diff")
def diff_(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="Output of `ibnetdiscover -p`; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Compare a discovered fabric with the plan.

    Exit codes: 0 all cables as planned, 1 some differ, 2 invalid input, 3 file cannot be interpreted.
    """
    from rackwright.plan.fabric.wiring import wiring
    from rackwright.report.fabric_diff import differences

    plan = _planned(context)
    assert plan.fabric is not None
    laid = wiring(plan)
    found = differences((cable.row() for cable in laid.cables), _discovered(file), f"{plan.fabric.width} {plan.fabric.speed}")
    if as_json:
        told = {"schema": SCHEMA, "stack": plan.stack, "cables": len(laid.cables), "differences": [row.as_dict() for row in found]}
        print(json.dumps(told, indent=2))
    else:
        print("\n".join(_told(found)) or f"all {len(laid.cables)} cables are connected as planned")
    raise typer.Exit(_DIFFERS if found else 0)


def _told(found: tuple[Difference, ...]) -> Iterable[str]:
    yield from map(str, found[:_SHOWN])
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more"


def _discovered(file: str) -> Live:
    """Return the fabric in the file; raise UndeterminedError if the file is empty, truncated or has another format."""
    from rackwright.errors import UndeterminedError
    from rackwright.report.fabric_diff import read

    try:
        return read(_read(file))
    except ValueError as unreadable:
        again = "run `ibnetdiscover -p` again on a node with an active port, and save its complete output"
        raise UndeterminedError(str(unreadable), path=file, hint=again) from None


def _read(file: str) -> str:
    from rackwright.errors import InputError

    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InputError(str(unreadable), path=file, hint="pass a file with the output of `ibnetdiscover -p`") from None


@fabric.command("svg")
def svg_(
    context: typer.Context,
    nodes: Nodes = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", help="Output file (default: standard output).")] = None,
) -> None:
    """Draw racks, leaves, spines and both planes as SVG."""
    from rackwright.plan.fabric.svg import picture

    text = picture(_planned(context), nodes)
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
