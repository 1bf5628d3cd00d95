"""`rackwright hosts scan`: query the machines of a stack and compare them with the stack file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.render import hosts_scan
from rackwright.drivers.preflight import PreflightResult
from rackwright.errors import InputError, UndeterminedError
from rackwright.operations.hosts.host_keys import write_keys
from rackwright.operations.hosts.preflight_scan import HostScan, scan_machines

_UNFIT = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""
_HINT = "run it on a terminal and compare, or pass --fingerprints FILE, taken from the machines' consoles or their administrator"


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
    found = scan_machines(stack)
    typer.echo(json.dumps(hosts_scan.data(found), indent=2) if as_json else hosts_scan.text(found))
    if write:
        found = _write(found, fingerprints)
    if not all(one.reached for one in found.machines):
        raise typer.Exit(UndeterminedError.exit_code)
    if not all(one.fits for one in found.machines):
        raise typer.Exit(_UNFIT)


def _write(found: HostScan, fingerprints: Path | None) -> HostScan:
    update = write_keys(found, fingerprints, _confirm)
    if update.missing:
        typer.echo(f"{found.file.name}: {update.written} of {update.missing} missing host keys written", err=True)
    else:
        typer.echo("no missing host key can be written", err=True)
    return update.scan


def _confirm(missing: Sequence[PreflightResult]) -> bool:
    """Ask the user to confirm the keys; raise InputError without a terminal."""
    if not sys.stdin.isatty():
        raise InputError("not a terminal: host keys must be confirmed by a person", path="--write", hint=_HINT)
    lines = [f"  {one.name}: {one.fingerprint} ({one.key_type})" for one in missing]
    typer.echo("\n".join(["", "The machines presented these keys, which are not in the stack file:", *lines]), err=True)
    typer.echo(
        "Compare each with the machine's console: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`. "
        "A man in the middle would present another key.",
        err=True,
    )
    answer: str = typer.prompt("Are all keys identical to those on the consoles? Type `yes` to write them", default="no", err=True)
    return answer.strip().lower() == "yes"
