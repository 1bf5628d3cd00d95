"""`rackwright validate` and `rackwright schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rackwright.cli.stack import Judged, judge, show
from rackwright.errors import BadInput
from rackwright.model.finding import Finding, Severity
from rackwright.model.load import Loaded

_BAD_INPUT = 2


def validate(
    stack: Annotated[str, typer.Argument(help="A stack's name, or a file's path.")],
    as_json: Annotated[bool, typer.Option("--json", help='Print {"findings": […], "ok": bool}.')] = False,
) -> None:
    """Everything that is wrong with a stack file, at once and offline. Exit code 2 if there is an error among it."""
    judged = _judge(stack)
    if as_json:
        print(json.dumps({"findings": [finding.to_data() for finding in judged.findings], "ok": judged.ok}, indent=2))
    else:
        show(judged.findings)
        print(_summary(judged))
    if not judged.ok:
        raise typer.Exit(_BAD_INPUT)


def schema() -> None:
    """The JSON schema of stack files, for editors."""
    from rackwright.model.schema import text

    print(text(), end="")


def _judge(stack: str) -> Judged:
    """A file that is not there is a finding too: `--json` promises findings."""
    try:
        return judge(stack)
    except BadInput as missing:
        finding = Finding(Severity.ERROR, "stack-file", missing.path, missing.cause, missing.hint)
        return Judged(Loaded(stack, None, (finding,)), (finding,))


def _summary(judged: Judged) -> str:
    counts = {level: sum(finding.level is level for finding in judged.findings) for level in Severity}
    said = [f"{count} {level}{'s' if count > 1 and level is not Severity.INFO else ''}" for level, count in counts.items() if count]
    if judged.ok and judged.loaded.cluster is not None:
        said.insert(0, f"valid, {sum(group.count for group in judged.loaded.cluster.groups.values())} nodes")
    return f"stack {judged.loaded.stack}: {', '.join(said)}"
