"""`rackwright hosts scan`: query the machines of a stack and compare them with the stack file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.host_keys import write_keys
from rackwright.cli.render import hosts_scan
from rackwright.drivers.preflight import PreflightRequest, PreflightResult, run_preflight
from rackwright.drivers.ssh_client import SshRoute
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.model.targets.hosts import HostsTarget
from rackwright.operations.stack import load_and_validate
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import find_stack_file

_UNFIT = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""


def scan(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    write: Annotated[bool, typer.Option("--write", help="Write missing host keys into the stack file after confirmation.")] = False,
    fingerprints: Annotated[
        Path | None,
        typer.Option("--fingerprints", metavar="FILE", help="Keys that --write compares with: lines of name and SHA256:…, or known_hosts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
    yes: Annotated[bool, typer.Option("--yes", hidden=True)] = False,
) -> None:
    """Query every machine of a stack and compare it with the stack file. Changes no machine.

    Exit codes: 0 all match, 1 some differ, 2 invalid input, 3 some are unreachable.
    """
    if yes:
        raise InputError(
            "would accept unverified host keys",
            path="--yes",
            hint="compare the keys at the prompt, or pass --fingerprints FILE with verified keys",
        )
    if fingerprints and not write:
        raise InputError("requires --write", path="--fingerprints", hint="add --write")
    file, plan = _planned(stack)
    seen = _looked(plan)
    typer.echo(json.dumps(hosts_scan.data(plan, seen), indent=2) if as_json else hosts_scan.text(plan, seen))
    if write:
        seen = write_keys(file, plan, seen, fingerprints)
    if not all(one.reached for one in seen):
        raise typer.Exit(UndeterminedError.exit_code)
    if not all(one.fits for one in seen):
        raise typer.Exit(_UNFIT)


def _planned(asked: str) -> tuple[Path, Plan]:
    """Return the stack's file and plan. Missing host keys and undeclared capacities are accepted; raise InputError for other errors."""
    judged = load_and_validate(asked)
    in_the_way = [
        finding for finding in judged.findings if finding.is_error and finding.rule not in {"machine-key-missing", "capacity-undeclared"}
    ]
    if in_the_way or judged.loaded.cluster is None:
        raise InputError("\n".join(map(str, in_the_way)))
    if not isinstance(judged.loaded.cluster.target, HostsTarget):
        raise InputError(
            f"target {judged.loaded.cluster.target.kind} creates its own nodes (expected target hosts)",
            path=f"stack {judged.loaded.stack}",
        )
    return find_stack_file(asked, paths.stacks()), expand(judged.loaded.cluster, judged.loaded.stack)


def _looked(plan: Plan) -> list[PreflightResult]:
    """Query every machine that is not `out`. Try the stack's own key first, as `up` does."""
    target = plan.target
    assert isinstance(target, HostsTarget)
    own = paths.identity(plan.stack)
    keys = [*([own] if own.exists() else []), *([Path(target.ssh_private_key_file)] if target.ssh_private_key_file else [])]
    via = _way(plan, target.jump_host) if target.jump_host else None
    return run_preflight(_asked(plan), keys, via=via, adopted=own.exists())


def _asked(plan: Plan) -> Sequence[PreflightRequest]:
    return [PreflightRequest(_way(plan, node.name), hosts_scan.declared(plan, node)) for node in plan.nodes if node.is_in]


def _way(plan: Plan, name: str) -> SshRoute:
    machine, node = hosts_scan.machine(plan, name), plan.node(name)
    return SshRoute(name, machine.ssh_address or node.address, node.ssh_port, node.user, machine.host_key or "")
