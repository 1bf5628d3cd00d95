"""`rackwright validate`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rackwright.cli.render.table import counted
from rackwright.model.finding import Severity
from rackwright.operations import validation
from rackwright.operations.stack import ValidatedStack

_BAD_INPUT = 2
_COULD_NOT_TELL = 3
"""Exit codes "invalid input" and "undetermined" (`rackwright.cli.main.app`)."""


def validate(
    stack: Annotated[
        str | None,
        typer.Argument(help="Stack name or path of a stack file. Default: the whole project, which is what `make validate` runs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help='Print {"findings": […], "ok": bool}.')] = False,
    online: Annotated[
        bool, typer.Option("--online", help="Query AWS as well: quotas, offerings, images, reservations, spot prices.")
    ] = False,
) -> None:
    """Check a stack file offline and report every error. Without a stack, check the project: format, stack files, playbooks and tests.

    Exit codes: 0 valid, 2 at least one error, 3 AWS cannot be queried (--online).
    """
    if stack is None:
        _validate_project(as_json=as_json, online=online)
        return
    found = validation.validate(stack, online=online)
    if as_json:
        print(json.dumps({"findings": [finding.to_data() for finding in found.stack.findings], "ok": found.stack.ok}, indent=2))
    else:
        print("\n".join([*map(str, found.stack.findings), _summary(found.stack)]))
    if not found.stack.ok:
        raise typer.Exit(_COULD_NOT_TELL if found.account_unknown else _BAD_INPUT)


def _validate_project(*, as_json: bool, online: bool) -> None:
    from rackwright import layout
    from rackwright.cli.render.project_validation import print_step, summary
    from rackwright.operations.project_validation import validate_project

    if online:
        raise typer.BadParameter("--online needs the name of a stack")
    root = layout.project_root()
    steps = validate_project(root, (lambda _: None) if as_json else print_step)
    ok = all(step.ok for step in steps)
    if as_json:
        print(json.dumps({"findings": [finding.to_data() for step in steps for finding in step.findings], "ok": ok}, indent=2))
    else:
        print(summary(root.name, steps))
    if not ok:
        raise typer.Exit(_BAD_INPUT)


def _summary(judged: ValidatedStack) -> str:
    counts = {level: sum(finding.level is level for finding in judged.findings) for level in Severity}
    said = [f"{count} {level}{'s' if count > 1 and level is not Severity.INFO else ''}" for level, count in counts.items() if count]
    if judged.ok and judged.loaded.cluster is not None:
        said.insert(0, f"valid, {counted(sum(group.count for group in judged.loaded.cluster.groups.values()), 'node')}")
    return f"stack {judged.loaded.stack}: {', '.join(said)}"
