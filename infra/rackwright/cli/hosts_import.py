"""`rackwright hosts import`: a list of machines becomes rows of a stack file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.stack_edit import change_machines
from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, did_you_mean
from rackwright.model.hosts import HostsTarget
from rackwright.model.load import find_stack_file, load_stack, stack_name
from rackwright.model.machine_list import Fields, as_nodes, read


def import_machines(
    stack: Annotated[str, typer.Argument(help="A stack's name, or a file's path.")],
    list_: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help="First line: name,address and any of reach,port,user,host_key,serial,rack,os.")
    ],
    group: Annotated[str | None, typer.Option("--group", help="Give machines of other names to this group's nodes, in order.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
) -> None:
    """Write a list of machines into a stack file. Comments, order and machines that the list does not name stay as they are."""
    file = find_stack_file(stack, paths.stacks())
    cluster = _described(file)
    if group is not None and group not in cluster.groups:
        raise BadInput(f"there is no group `{group}`", path="--group", hint=did_you_mean(group, cluster.groups))
    rows, wrong = read(_text(list_), list_.name)
    fields, homeless = as_nodes(rows, cluster, group, list_.name)
    _refuse([*wrong, *homeless])
    if not fields:
        raise BadInput("names no machine", path=str(list_), hint="one line each, below the names of the columns")
    change = change_machines(file, fields)
    if dry_run:
        typer.echo(change.diff or f"{file.name}: nothing would change")
        return
    change.write()
    typer.echo("\n".join(_told(file, cluster, fields)))


def _described(file: Path) -> Cluster:
    """The file's cluster, whatever is still missing in it; BadInput where its fields are wrong, or its target is another."""
    loaded = load_stack(file)
    if loaded.cluster is None:
        _refuse(loaded.findings)
        raise BadInput("cannot be read", path=str(file), hint="give the path of the stack file to write to")
    if not isinstance(loaded.cluster.target, HostsTarget):
        hint = "machines belong to target hosts: docs/targets/hosts.md"
        raise BadInput(f"its target is {loaded.cluster.target.kind}, which makes its nodes itself", path=file.name, hint=hint)
    return loaded.cluster


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as broken:
        raise BadInput(f"byte {broken.start} is no UTF-8", path=str(file), hint="save the list as CSV in UTF-8") from None
    except OSError as refused:
        raise BadInput(
            f"cannot be read: {refused.strerror}", path=str(file), hint="give the path of a CSV file whose first line names its columns"
        ) from None


def _refuse(findings: Sequence[Finding]) -> None:
    if findings:
        raise BadInput("\n".join(map(str, findings)))


def _told(file: Path, before: Cluster, fields: dict[str, Fields]) -> list[str]:
    """What was done, and what is left to do."""
    assert isinstance(before.target, HostsTarget)
    new = sum(name not in before.target.machines for name in fields)
    after = _described(file)
    assert isinstance(after.target, HostsTarget)
    lines = [f"{file.name}: {new} machines added, {len(fields) - new} brought up to date, {len(after.target.each)} in all"]
    if keyless := [name for name, machine in after.target.each.items() if machine.host_key is None]:
        lines.append(f"  {len(keyless)} have no host_key yet: `rackwright hosts scan {stack_name(file)} --write` shows what to compare")
    return [*lines, f"  `rackwright validate {stack_name(file)}` says what else is missing"]
