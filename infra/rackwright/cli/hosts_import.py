"""`rackwright hosts import`: add a list of machines to a stack file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, did_you_mean
from rackwright.model.targets.hosts import HostsTarget
from rackwright.operations.stack_edit import change_machines
from rackwright.stackfile.load import find_stack_file, load_stack, stack_name
from rackwright.stackfile.machine_list import Fields, as_nodes, read


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
    file = find_stack_file(stack, paths.stacks())
    cluster = _described(file)
    if group is not None and group not in cluster.groups:
        raise InputError(f"unknown group `{group}`", path="--group", hint=did_you_mean(group, cluster.groups))
    rows, wrong = read(_text(list_), list_.name)
    fields, homeless = as_nodes(rows, cluster, group, list_.name)
    _refuse([*wrong, *homeless])
    if not fields:
        raise InputError("contains no machine", path=str(list_), hint="add one line per machine below the line with the column names")
    change = change_machines(file, fields)
    if dry_run:
        typer.echo(change.diff or f"{file.name}: no changes")
        return
    change.write()
    typer.echo("\n".join(_told(file, cluster, fields)))


def _described(file: Path) -> Cluster:
    """Return the file's cluster, even if it is incomplete; raise InputError if a field is invalid or the target is not hosts."""
    loaded = load_stack(file)
    if loaded.cluster is None:
        _refuse(loaded.findings)
        raise InputError("cannot be read", path=str(file), hint="pass the path of the stack file to write to")
    if not isinstance(loaded.cluster.target, HostsTarget):
        hint = "use a stack with target hosts: docs/targets/hosts.md"
        raise InputError(f"target {loaded.cluster.target.kind} creates its own nodes (expected target hosts)", path=file.name, hint=hint)
    return loaded.cluster


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as broken:
        raise InputError(f"byte {broken.start} is not UTF-8", path=str(file), hint="save the list as CSV in UTF-8") from None
    except OSError as refused:
        raise InputError(
            f"cannot be read: {refused.strerror}", path=str(file), hint="pass the path of a CSV file whose first line names the columns"
        ) from None


def _refuse(findings: Sequence[Finding]) -> None:
    if findings:
        raise InputError("\n".join(map(str, findings)))


def _told(file: Path, before: Cluster, fields: dict[str, Fields]) -> list[str]:
    """Return the lines that report the changes and the remaining steps."""
    assert isinstance(before.target, HostsTarget)
    new = sum(name not in before.target.machines for name in fields)
    after = _described(file)
    assert isinstance(after.target, HostsTarget)
    lines = [f"{file.name}: {new} machines added, {len(fields) - new} updated, {len(after.target.each)} in total"]
    if keyless := [name for name, machine in after.target.each.items() if machine.host_key is None]:
        lines.append(
            f"  {len(keyless)} have no host_key yet: run `rackwright hosts scan {stack_name(file)} --write` to compare and add the keys"
        )
    return [*lines, f"  run `rackwright validate {stack_name(file)}` to list what else is missing"]
