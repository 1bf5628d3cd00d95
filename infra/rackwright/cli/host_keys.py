"""Missing host keys, written into a stack file after somebody has vouched for them: a person at the prompt, or a file of fingerprints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from rackwright.cli.scan_shown import machine
from rackwright.cli.stack_edit import change_machines
from rackwright.errors import BadInput, RackwrightError
from rackwright.model import fingerprints
from rackwright.plan import Plan
from rackwright.provider.drivers.survey import Seen

_HINT = "on a terminal, compare and answer; or give --fingerprints FILE, from the machines' consoles or whoever set them up"


def write_keys(file: Path, plan: Plan, seen: Sequence[Seen], vouched: Path | None) -> list[Seen]:
    """What was seen, with the keys that are given now; the stack file has them. Raises where a shown key is not the vouched one."""
    missing = [one for one in seen if one.fingerprint and one.key_confirmed is None]
    if not missing:
        typer.echo("no host key that could be written is missing", err=True)
        return list(seen)
    confirmed = _compared(plan, missing, vouched) if vouched is not None else _asked(missing)
    if confirmed:
        change_machines(file, {one.name: {"host_key": one.fingerprint} for one in confirmed}).write()
    typer.echo(f"{file.name}: {len(confirmed)} of {len(missing)} missing host keys written", err=True)
    names = {one.name for one in confirmed}
    return [replace(one, key_confirmed=True, wrong=one.wrong[1:]) if one.name in names else one for one in seen]


def _asked(missing: Sequence[Seen]) -> list[Seen]:
    """All or none of them, as the person at the terminal says."""
    if not sys.stdin.isatty():
        raise BadInput("nobody is there to compare the keys", path="--write", hint=_HINT)
    lines = [f"  {one.name}: {one.fingerprint} ({one.key_type})" for one in missing]
    typer.echo("\n".join(["", "These keys were shown, and none is in the stack file:", *lines]), err=True)
    typer.echo(
        "Each console says its own: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`. Whoever is in between would show another.", err=True
    )
    answer: str = typer.prompt("Did you compare them, and are all of them the same? Type `yes` to write them", default="no", err=True)
    return list(missing) if answer.strip().lower() == "yes" else []


def _compared(plan: Plan, missing: Sequence[Seen], vouched: Path) -> list[Seen]:
    """Those that show what the file says; it may know a machine by its node's name, its label or an address."""
    try:
        known, wrong = fingerprints.read(vouched.read_text(encoding="utf-8"), vouched.name)
    except (OSError, UnicodeDecodeError) as refused:
        raise BadInput(f"cannot be read: {refused}", path=str(vouched)) from None
    if wrong:
        raise BadInput("\n".join(map(str, wrong)))
    good: list[Seen] = []
    bad: list[Seen] = []
    for one in missing:
        said = known.get(one.name) or next((known[name] for name in _names(plan, one) if name in known), None)
        if said is not None:
            (good if one.fingerprint in said else bad).append(one)
    if bad:
        lines = [f"{one.name}: shows {one.fingerprint}, which {vouched.name} does not give for it" for one in bad]
        raise RackwrightError("\n".join(lines), hint="nothing was written: find out who answers there")
    return good


def _names(plan: Plan, one: Seen) -> list[str]:
    known = machine(plan, one.name)
    return [name for name in (known.label, known.reach, plan.node(one.name).address) if name]
