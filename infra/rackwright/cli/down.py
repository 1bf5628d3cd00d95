"""`rackwright down`: Pulumi without prompts, or deletion without Pulumi state."""

from __future__ import annotations

import json
import sys
from typing import Annotated, NoReturn

import typer

from rackwright.drivers import pulumi
from rackwright.drivers.aws import orphans
from rackwright.operations import destroy_by_label
from rackwright.operations.drift import systemd_timer

_NOT_AS_DECLARED, _COULD_NOT_TELL = 1, 3
"""Exit codes "not as declared" and "undetermined" (`rackwright.cli.main.app`)."""


def down(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    by_label: Annotated[
        bool, typer.Option("--by-label", help="Delete all resources with the stack's label; needs no Pulumi state.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --by-label on AWS: delete the resources and their data (default: list them).")
    ] = False,
    region: Annotated[str | None, typer.Option("--region", help="With --by-label on AWS: region (default: from the stack file).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --by-label: print the result as JSON.")] = False,
) -> None:
    """Delete a stack: `pulumi destroy` without prompts, or by label if the state is lost."""
    if files := systemd_timer.installed_units(systemd_timer.nightly_scan(stack)):
        typer.echo(f"{files[0]} still scans {stack} every night: run `rackwright drift-schedule {stack} --remove` to remove it", err=True)
    if not by_label:
        raise typer.Exit(pulumi.run("destroy", stack))
    there = region or destroy_by_label.aws_region(stack)
    if there is not None:
        _sweep_aws(stack, there, yes=yes, as_json=as_json)
    removed = destroy_by_label.sweep_lab(stack)
    if as_json:
        typer.echo(json.dumps({"stack": stack, "removed": removed}))
    elif removed:
        typer.echo("\n".join(f"removed {item}" for item in removed))
    else:
        typer.echo(f"no container, volume, network or secret with the label of stack {stack}")


def _sweep_aws(stack: str, region: str, *, yes: bool, as_json: bool) -> NoReturn:
    """Print the remaining resources; exit 1 if there are any, 3 if some resource types could not be queried."""
    swept = destroy_by_label.sweep_aws(stack, region, lambda line: print(line, file=sys.stderr if as_json else sys.stdout), delete=yes)
    found, where = swept.found, f"account {swept.account}, {region}"
    if as_json:
        things = [{"kind": thing.kind, "id": thing.id} for thing in found.remaining]
        data = {"stack": stack, "account": swept.account, "region": region, "remaining": things, "not_queried": list(found.not_queried)}
        print(json.dumps(data, indent=2))
    elif found.remaining or found.not_queried:
        ends = (
            [f"{len(found.remaining)} resources of stack {stack} remain in {where}; pass --yes to delete them"] if found.remaining else []
        )
        print("\n".join([*orphans.lines(found), *ends]))
    else:
        print(f"no resource with the tag of stack {stack} in {where}")
    raise typer.Exit(_COULD_NOT_TELL if found.not_queried else _NOT_AS_DECLARED if found.remaining else 0)
