"""`rackwright impact`: preview what an edited stack file will change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from rackwright.cli.progress import show_warning
from rackwright.impact import DISRUPTIVE, Action, PlannedChange
from rackwright.impact import impact as worked_out
from rackwright.inventory import applied, paths
from rackwright.model.finding import Finding, Severity
from rackwright.operations.stack import cluster_and_plan

SCHEMA: Final = "rackwright.impact/2"
_DISRUPTIVE, _REFUSED = 1, 2


def impact(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.impact/2).")] = False,
) -> None:
    """Preview what an edited stack file will change, most disruptive changes first.

    The file is compared with the stack that was last applied from this state directory.

    Exit codes: 0 not disruptive, 1 ends jobs or sessions or deletes data, 2 edit refused or invalid input, 3 undetermined.
    """
    now = cluster_and_plan(stack, show_warning)
    last = applied.read(paths.applied(now.plan.stack))
    found = worked_out(last, now)
    if as_json:
        print(json.dumps(_data(now.plan.stack, last is not None, found), indent=2))
    else:
        print("\n".join(map(str, found)) or f"no changes: stack {now.plan.stack} was last applied with this description")
    raise typer.Exit(_exit_code(found))


def _exit_code(found: Sequence[PlannedChange]) -> int:
    actions = {consequence.action for consequence in found}
    return _REFUSED if Action.REFUSE in actions else _DISRUPTIVE if actions & DISRUPTIVE else 0


def _data(stack: str, was_applied: bool, found: Sequence[PlannedChange]) -> dict[str, Any]:
    refused = [consequence for consequence in found if consequence.action is Action.REFUSE]
    return {
        "schema": SCHEMA,
        "stack": stack,
        "applied": was_applied,
        "disruptive": any(consequence.action in DISRUPTIVE for consequence in found),
        "consequences": [consequence.to_data() for consequence in found],
        "findings": [_finding(consequence).to_data() for consequence in refused],
    }


def _finding(refused: PlannedChange) -> Finding:
    path = refused.caused_by[0] if refused.caused_by else refused.affected[0]
    return Finding(Severity.ERROR, "edit-refused", path, refused.message, refused.hint)
