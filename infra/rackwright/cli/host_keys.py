"""Writing missing host keys into a stack file after verification: by a person at the prompt, or by a file of fingerprints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from rackwright.cli.render.hosts_scan import machine
from rackwright.drivers.preflight import PreflightResult
from rackwright.errors import InputError, RackwrightError
from rackwright.operations.stack_edit import change_machines
from rackwright.plan import Plan
from rackwright.stackfile import fingerprints

_HINT = "run it on a terminal and compare, or pass --fingerprints FILE, taken from the machines' consoles or their administrator"


def write_keys(file: Path, plan: Plan, seen: Sequence[PreflightResult], vouched: Path | None) -> list[PreflightResult]:
    """Write verified host keys into the stack file and return the scan with those keys marked as confirmed.

    Raises RackwrightError if a machine presents another key than the fingerprint file contains.
    """
    missing = [one for one in seen if one.fingerprint and one.key_confirmed is None]
    if not missing:
        typer.echo("no missing host key can be written", err=True)
        return list(seen)
    confirmed = _compared(plan, missing, vouched) if vouched is not None else _asked(missing)
    if confirmed:
        change_machines(file, {one.name: {"host_key": one.fingerprint} for one in confirmed}).write()
    typer.echo(f"{file.name}: {len(confirmed)} of {len(missing)} missing host keys written", err=True)
    names = {one.name for one in confirmed}
    return [replace(one, key_confirmed=True, wrong=one.wrong[1:]) if one.name in names else one for one in seen]


def _asked(missing: Sequence[PreflightResult]) -> list[PreflightResult]:
    """Ask the user to confirm the keys; return all of them or none. Raises InputError without a terminal."""
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
    return list(missing) if answer.strip().lower() == "yes" else []


def _compared(plan: Plan, missing: Sequence[PreflightResult], vouched: Path) -> list[PreflightResult]:
    """Return the machines whose key matches the file, which may list them by node name, label or address.

    Raises InputError if the file cannot be read, RackwrightError if a key differs.
    """
    try:
        known, wrong = fingerprints.read(vouched.read_text(encoding="utf-8"), vouched.name)
    except (OSError, UnicodeDecodeError) as refused:
        raise InputError(f"cannot be read: {refused}", path=str(vouched)) from None
    if wrong:
        raise InputError("\n".join(map(str, wrong)))
    good: list[PreflightResult] = []
    bad: list[PreflightResult] = []
    for one in missing:
        said = known.get(one.name) or next((known[name] for name in _names(plan, one) if name in known), None)
        if said is not None:
            (good if one.fingerprint in said else bad).append(one)
    if bad:
        lines = [f"{one.name}: presents {one.fingerprint}, which is not in {vouched.name} for this machine" for one in bad]
        raise RackwrightError("\n".join(lines), hint="check which machine answers at that address; nothing was written")
    return good


def _names(plan: Plan, one: PreflightResult) -> list[str]:
    known = machine(plan, one.name)
    return [name for name in (known.label, known.ssh_address, plan.node(one.name).address) if name]
