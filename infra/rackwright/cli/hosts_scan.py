"""`rackwright hosts scan`: what the machines of a stack are, beside what the stack says they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli import scan_shown
from rackwright.cli.host_keys import write_keys
from rackwright.cli.stack import judge
from rackwright.errors import BadInput, CouldNotTell
from rackwright.handover import paths
from rackwright.model.hosts import HostsTarget
from rackwright.model.load import find_stack_file
from rackwright.plan import Plan, expand
from rackwright.provider.drivers.remote import Way
from rackwright.provider.drivers.survey import Asked, Seen, survey

_UNFIT = 1


def scan(
    stack: Annotated[str, typer.Argument(help="A stack's name, or a file's path.")],
    write: Annotated[bool, typer.Option("--write", help="Write missing host keys into the stack file, after you compared them.")] = False,
    fingerprints: Annotated[
        Path | None,
        typer.Option("--fingerprints", metavar="FILE", help="What --write compares with: lines of name and SHA256:…, or known_hosts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything that was seen, as JSON.")] = False,
    yes: Annotated[bool, typer.Option("--yes", hidden=True)] = False,
) -> None:
    """Look at every machine of a stack and compare; changes none. Exit codes: 0 all fit, 1 not all, 2 bad input, 3 could not reach all."""
    if yes:
        raise BadInput(
            "nobody has compared the keys then", path="--yes", hint="look at them, or give --fingerprints FILE from somebody who has"
        )
    if fingerprints and not write:
        raise BadInput("says what --write compares with", path="--fingerprints", hint="add --write")
    file, plan = _planned(stack)
    seen = _looked(plan)
    typer.echo(json.dumps(scan_shown.data(plan, seen), indent=2) if as_json else scan_shown.text(plan, seen))
    if write:
        seen = write_keys(file, plan, seen, fingerprints)
    if not all(one.reached for one in seen):
        raise typer.Exit(CouldNotTell.exit_code)
    if not all(one.fits for one in seen):
        raise typer.Exit(_UNFIT)


def _planned(asked: str) -> tuple[Path, Plan]:
    """The stack's file and plan; what it may lack before its machines were looked at is no error yet."""
    judged = judge(asked)
    in_the_way = [
        finding for finding in judged.findings if finding.is_error and finding.rule not in {"machine-key-missing", "capacity-undeclared"}
    ]
    if in_the_way or judged.loaded.cluster is None:
        raise BadInput("\n".join(map(str, in_the_way)))
    if not isinstance(judged.loaded.cluster.target, HostsTarget):
        raise BadInput(
            f"its target is {judged.loaded.cluster.target.kind}, which makes its nodes itself", path=f"stack {judged.loaded.stack}"
        )
    return find_stack_file(asked, paths.stacks()), expand(judged.loaded.cluster, judged.loaded.stack)


def _looked(plan: Plan) -> list[Seen]:
    """What every machine shows that is not out; the stack's own key comes first, as it does in `up`."""
    target = plan.target
    assert isinstance(target, HostsTarget)
    own = paths.identity(plan.stack)
    keys = [*([own] if own.exists() else []), *([Path(target.identity)] if target.identity else [])]
    via = _way(plan, target.via) if target.via else None
    return survey(_asked(plan), keys, via=via, adopted=own.exists())


def _asked(plan: Plan) -> Sequence[Asked]:
    return [Asked(_way(plan, node.name), scan_shown.declared(plan, node)) for node in plan.nodes if node.is_in]


def _way(plan: Plan, name: str) -> Way:
    machine, node = scan_shown.machine(plan, name), plan.node(name)
    return Way(name, machine.reach or node.address, node.ssh_port, node.user, machine.host_key or "")
