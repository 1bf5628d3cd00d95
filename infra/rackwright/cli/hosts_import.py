"""`rackwright hosts import`: add a list of machines to a stack file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackwright.operations.hosts import machine_import
from rackwright.stackfile.load import stack_name


def import_machines(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    list_: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="List of machines. First line: name,address and any of ssh_address,port,user,host_key,serial,rack,os,label.",
        ),
    ],
    group: Annotated[str | None, typer.Option("--group", help="Assign machines with other names to this group's nodes, in order.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without writing them.")] = False,
) -> None:
    """Write a list of machines into a stack file. Comments, order and machines that are not in the list stay unchanged."""
    found = machine_import.import_machines(stack, list_, group)
    file = found.change.file
    if dry_run:
        typer.echo(found.change.diff or f"{file.name}: no changes")
        return
    found.change.write()
    typer.echo(f"{file.name}: {found.added} machines added, {found.updated} updated, {found.total} in total")
    if found.without_key:
        scan = f"rackwright hosts scan {stack_name(file)} --write"
        typer.echo(f"  {found.without_key} have no host_key yet: run `{scan}` to compare and add the keys")
    typer.echo(f"  run `rackwright validate {stack_name(file)}` to list what else is missing")
