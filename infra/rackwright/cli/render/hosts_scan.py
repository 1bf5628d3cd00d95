"""Output of `rackwright hosts scan`: a table for people and JSON data for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rackwright.cli.render.table import table
from rackwright.drivers.host_facts import MEMORY_SHOWN, Declared, Facts
from rackwright.drivers.preflight import PreflightResult
from rackwright.operations.hosts.preflight_scan import HostScan, declared, machine, port
from rackwright.plan import Plan

_WORDS = {"fit": "match", "do_not_fit": "differ", "not_reached": "unreachable", "out_and_not_looked_at": "out (not scanned)"}
_HEADS = ["node", "machine", "address", "login", "os", "cpus", "memory", "gpus", "free", "host key", "matches"]


def text(scan: HostScan) -> str:
    """Return one row per machine, with the declared value in brackets where it differs, followed by all mismatches."""
    return "\n\n".join(_sections(scan.plan, scan.machines))


def _sections(plan: Plan, seen: Sequence[PreflightResult]) -> Iterator[str]:
    yield table(_HEADS, [_row(plan, one) for one in seen])
    wrong = [f"{one.name}: {words}" for one in seen for words in one.problems]
    if wrong:
        yield "\n".join(wrong)
    totals = _totals(plan, seen)
    yield f"stack {plan.stack}: " + ", ".join(f"{count} {_WORDS[what]}" for what, count in totals.items() if count)


def _row(plan: Plan, one: PreflightResult) -> list[object]:
    node, known = plan.node(one.name), machine(plan, one.name)
    login = "root" if one.root else "no root" if one.logged_in else "refused" if one.reached else "no answer"
    key = f"{one.fingerprint} ({one.key_type})" if one.fingerprint else None
    verdict = "yes" if one.fits else "no" if one.reached else "unknown"
    name = [word for word in (known.label, known.rack, known.serial) if word]
    has = _has(one.facts, declared(plan, node)) if one.facts else [None] * 5
    return [one.name, name or None, known.ssh_address or node.address, login, *has, key, verdict]


def _has(found: Facts, said: Declared) -> list[str]:
    """Return the actual values as text, with the declared value in brackets where it is not met."""
    short = found.memory_mib < said.memory_mib * MEMORY_SHOWN
    return [
        found.os if found.os == said.os else f"{found.os} ({said.os})",
        str(found.cpus) if found.cpus >= said.cpus else f"{found.cpus} ({said.cpus})",
        f"{found.memory_mib} ({said.memory_mib}) MiB" if short else f"{found.memory_mib} MiB",
        str(found.gpus) if found.gpus == said.gpus else f"{found.gpus} ({said.gpus})",
        f"{found.free_kib // 2**20} GiB",
    ]


def data(scan: HostScan) -> dict[str, Any]:
    """Return all results with the declared values, for JSON."""
    machines = [_machine(scan.plan, one) for one in scan.machines]
    return {"stack": scan.plan.stack, "machines": machines, "totals": _totals(scan.plan, scan.machines)}


def _machine(plan: Plan, one: PreflightResult) -> dict[str, Any]:
    node, known = plan.node(one.name), machine(plan, one.name)
    shown = {"type": one.key_type, "fingerprint": one.fingerprint, "confirmed": one.key_confirmed} if one.fingerprint else None
    return {
        "node": one.name,
        **{field: getattr(known, field) for field in ("label", "rack", "serial")},
        "address": known.ssh_address or node.address,
        "port": port(plan, one.name),
        "user": node.user,
        "reached": one.reached,
        "host_key": shown,
        "logged_in": one.logged_in,
        "root": one.root,
        "found": asdict(one.facts) if one.facts else None,
        "declared": asdict(declared(plan, node)),
        "problems": list(one.problems),
        "fits": one.fits if one.reached else None,
    }


def _totals(plan: Plan, seen: Sequence[PreflightResult]) -> dict[str, int]:
    return {
        "fit": sum(one.fits for one in seen),
        "do_not_fit": sum(one.reached and not one.fits for one in seen),
        "not_reached": sum(not one.reached for one in seen),
        "out_and_not_looked_at": len(plan.groups["out"]),
    }
