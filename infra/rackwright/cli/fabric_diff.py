"""`rackwright fabric diff`: compare a discovered fabric with the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rackwright.cli.fabric_options import SCHEMA, AsJson, Stack, plan_with_fabric

if TYPE_CHECKING:
    from rackwright.report.fabric_diff import Difference, Live

_DIFFERS: Final = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""
_SHOWN: Final = 40
"""Maximum number of differences to list; an entirely different fabric has thousands."""


def diff(
    stack: Stack,
    file: Annotated[str, typer.Argument(help="Output of `ibnetdiscover -p`; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Compare a discovered fabric with the plan.

    Exit codes: 0 all cables as planned, 1 some differ, 2 invalid input, 3 file cannot be interpreted.
    """
    from rackwright.plan.fabric.wiring import wiring
    from rackwright.report.fabric_diff import differences

    plan = plan_with_fabric(stack)
    assert plan.fabric is not None
    laid = wiring(plan)
    found = differences((cable.row() for cable in laid.cables), _discovered(file), f"{plan.fabric.width} {plan.fabric.speed}")
    if as_json:
        document = {"schema": SCHEMA, "stack": plan.stack, "cables": len(laid.cables), "differences": [row.as_dict() for row in found]}
        print(json.dumps(document, indent=2))
    else:
        print("\n".join(_lines(found)) or f"all {len(laid.cables)} cables are connected as planned")
    raise typer.Exit(_DIFFERS if found else 0)


def _lines(found: tuple[Difference, ...]) -> Iterable[str]:
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
        hint = "run `ibnetdiscover -p` again on a node with an active port, and save its complete output"
        raise UndeterminedError(str(unreadable), path=file, hint=hint) from None


def _read(file: str) -> str:
    from rackwright.errors import InputError

    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InputError(str(unreadable), path=file, hint="pass a file with the output of `ibnetdiscover -p`") from None
