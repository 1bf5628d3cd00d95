"""`rackwright validate` and `rackwright schema`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from rackwright.errors import InputError
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity
from rackwright.model.targets.aws import AwsTarget
from rackwright.operations.stack import ValidatedStack, load_and_validate, show
from rackwright.stackfile.load import Loaded

_BAD_INPUT = 2
_COULD_NOT_TELL = 3
"""Exit codes "invalid input" and "undetermined" (`rackwright.cli.main.app`)."""


def validate(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    as_json: Annotated[bool, typer.Option("--json", help='Print {"findings": […], "ok": bool}.')] = False,
    online: Annotated[
        bool, typer.Option("--online", help="Query AWS as well: quotas, offerings, images, reservations, spot prices.")
    ] = False,
) -> None:
    """Check a stack file offline and report every error.

    Exit codes: 0 valid, 2 at least one error, 3 AWS cannot be queried (--online).
    """
    judged = _judge(stack)
    refused, silent = not judged.ok, False
    if online and judged.loaded.cluster is not None:
        asked, silent = _asked(judged.loaded.stack, judged.loaded.cluster)
        judged = replace(judged, findings=(*judged.findings, *asked))
    if as_json:
        print(json.dumps({"findings": [finding.to_data() for finding in judged.findings], "ok": judged.ok}, indent=2))
    else:
        show(judged.findings)
        print(_summary(judged))
    if not judged.ok:
        raise typer.Exit(_COULD_NOT_TELL if silent and not refused else _BAD_INPUT)


def _asked(stack: str, cluster: Cluster) -> tuple[tuple[Finding, ...], bool]:
    """Return the findings of the AWS queries, and whether AWS could not be queried at all."""
    if not isinstance(cluster.target, AwsTarget):
        nobody = Finding(
            Severity.INFO,
            "online-account",
            "target.kind",
            f"target {cluster.target.kind} has no online checks",
            "use --online with target aws",
        )
        return (nobody,), False
    from rackwright.drivers.aws import account_checks
    from rackwright.drivers.aws.account import Account, AwsCredentialsError

    try:
        return tuple(
            account_checks.run_checks(
                account_checks.AccountCheckContext(Account(cluster.target.region), cluster, cluster.target, stack, datetime.now(UTC))
            )
        ), False
    except AwsCredentialsError as nobody_home:
        return (account_checks.no_account(nobody_home),), True


def schema() -> None:
    """Print the JSON schema of stack files, for editors."""
    from rackwright.stackfile.schema import text

    print(text(), end="")


def _judge(stack: str) -> ValidatedStack:
    """Load and validate the stack. A missing file becomes a finding, because `--json` always prints findings."""
    try:
        return load_and_validate(stack)
    except InputError as missing:
        finding = Finding(Severity.ERROR, "stack-file", missing.path, missing.cause, missing.hint)
        return ValidatedStack(Loaded(stack, None, (finding,)), (finding,))


def _summary(judged: ValidatedStack) -> str:
    counts = {level: sum(finding.level is level for finding in judged.findings) for level in Severity}
    said = [f"{count} {level}{'s' if count > 1 and level is not Severity.INFO else ''}" for level, count in counts.items() if count]
    if judged.ok and judged.loaded.cluster is not None:
        said.insert(0, f"valid, {sum(group.count for group in judged.loaded.cluster.groups.values())} nodes")
    return f"stack {judged.loaded.stack}: {', '.join(said)}"
