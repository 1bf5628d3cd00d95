"""Host keys of a stack file: missing keys are written after a person or a file of fingerprints confirmed them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rackwright.drivers.preflight import PreflightResult
from rackwright.errors import InputError, RackwrightError
from rackwright.operations.hosts.preflight_scan import HostScan, machine
from rackwright.operations.stack_edit import change_machines
from rackwright.plan import Plan
from rackwright.stackfile import fingerprints

Confirm = Callable[[Sequence[PreflightResult]], bool]
"""Asks a person whether all these machines presented their own keys."""


@dataclass(frozen=True, slots=True)
class KeyUpdate:
    """A scan in which the written keys are confirmed."""

    scan: HostScan
    written: int
    missing: int
    """Number of machines whose key was missing, and which presented one."""


def write_keys(scan: HostScan, vouched: Path | None, confirm: Confirm) -> KeyUpdate:
    """Write confirmed host keys into the stack file: those of the fingerprint file, or without one those that a person confirms.

    Raises InputError if the fingerprint file cannot be read, RackwrightError if a machine presents another key than the file contains;
    nothing is written then.
    """
    missing = [one for one in scan.machines if one.fingerprint and one.key_confirmed is None]
    if not missing:
        return KeyUpdate(scan, 0, 0)
    confirmed = _compared(scan.plan, missing, vouched) if vouched is not None else missing if confirm(missing) else []
    if confirmed:
        change_machines(scan.file, {one.name: {"host_key": one.fingerprint} for one in confirmed}).write()
    names = {one.name for one in confirmed}
    machines = (replace(one, key_confirmed=True, problems=one.problems[1:]) if one.name in names else one for one in scan.machines)
    return KeyUpdate(replace(scan, machines=tuple(machines)), len(confirmed), len(missing))


def _compared(plan: Plan, missing: Sequence[PreflightResult], vouched: Path) -> list[PreflightResult]:
    """Return the machines whose key matches the file, which may list them by node name, label or address."""
    try:
        known, wrong = fingerprints.read(vouched.read_text(encoding="utf-8"), vouched.name)
    except (OSError, UnicodeDecodeError) as refused:
        raise InputError(f"cannot be read: {refused}", path=str(vouched)) from None
    if wrong:
        raise InputError("\n".join(map(str, wrong)))
    good: list[PreflightResult] = []
    bad: list[PreflightResult] = []
    for one in missing:
        expected = fingerprints.find(known, [one.name, *_names(plan, one)])
        if expected is not None:
            (good if one.fingerprint in expected else bad).append(one)
    if bad:
        lines = [f"{one.name}: presents {one.fingerprint}, which is not in {vouched.name} for this machine" for one in bad]
        raise RackwrightError("\n".join(lines), hint="check which machine answers at that address; nothing was written")
    return good


def _names(plan: Plan, one: PreflightResult) -> list[str]:
    known = machine(plan, one.name)
    return [name for name in (known.label, known.ssh_address, plan.node(one.name).address) if name]
