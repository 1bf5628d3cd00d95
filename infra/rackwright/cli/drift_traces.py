"""The part of the look that is about what nobody declared: nodes are asked what they have, and compared with when all was well."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Final

from rackwright.drift.difference import CLUSTER, Difference, Layer, Weight
from rackwright.drift.document import Drift
from rackwright.drift.history import Seen
from rackwright.drift.traces import baseline
from rackwright.drift.traces.compare import Kinds, differences
from rackwright.handover import paths
from rackwright.provider.drivers import asking, ssh
from rackwright.provider.drivers.awake import awake, handed_over
from rackwright.report.declared import Declared

_TROUBLE = "trouble"
_REACH: Final = 10.0
"""Seconds a node that was there may take to answer."""

SIMULATED_FABRIC: Final = range(7071, 7081)
"""UDP ports on which the simulated fabric answers whoever asks it just then (roles/fabric, ibsim's data ports): open and shut by turns."""


@dataclass(frozen=True, slots=True)
class Traces:
    """What nodes have, and why it is not known of others or in part."""

    nodes: Mapping[str, Kinds] = field(default_factory=dict)
    silent: tuple[tuple[str, str], ...] = ()


async def nothing() -> Traces:
    """Where nobody wants to know."""
    return Traces()


async def asked(stack: str, declared: Declared) -> Traces:
    """Every node that is in, at the same time, awake and over connections that stand."""
    program = files("rackwright.drift.traces").joinpath("side.py").read_text(encoding="utf-8")
    async with awake(stack, handed_over(paths.inventory(stack)), _silently):
        lost = await ssh.reach(stack, declared.nodes, within=_REACH)
        there = [name for name in declared.nodes if name not in lost]
        sudo = {name: declared.becomes_root(name) for name in there}
        told, mute = await asking.ask(stack, dict.fromkeys(there, program), sudo, target=declared.target)
    silent = [(name, f"what it has was not told: {why}") for name, why in {**lost, **mute}.items()]
    silent += [(name, f"{kind} could not be read: {why}") for name, found in told.items() for kind, why in found[_TROUBLE].items()]
    passing = SIMULATED_FABRIC if "fabric" in declared.simulated else range(0)
    return Traces({name: lasting(found, passing) for name, found in told.items()}, tuple(silent))


def lasting(told: Kinds, passing: Collection[int]) -> dict[str, dict[str, str]]:
    """What a node told, by kind, without UDP sockets on ports that open and shut as a part of its work."""
    ports = {f"udp 0.0.0.0 {port}" for port in passing}
    return {kind: {name: what for name, what in part.items() if name not in ports} for kind, part in told.items() if kind != _TROUBLE}


async def _silently(_text: str) -> None:
    """The layers beside it say what they do."""


def compared(found: Drift, now: Traces, past: Iterable[Seen], *, accept: bool) -> Drift:
    """The look with what nodes have beyond what they had when all was well; `accept`: with what they have now, from then on."""
    file = paths.traces(found.stack)
    kept = baseline.Baseline("") if accept else baseline.read(file)
    still = {(one.difference.node, one.difference.subject) for one in past if one.healed is None}
    well = set(now.nodes) if accept else _well(found, now.nodes)
    kept = kept.renewed(_applied(found.stack), now.nodes, well, still)
    baseline.write(kept, file)
    further = [
        one for name, kinds in now.nodes.items() if (was := kept.of(name, kinds)) for one in differences(found.stack, name, was, kinds)
    ]
    return found.with_looks(
        replace(look, differences=(*look.differences, *_unexplained(found, further)), unknown=_told_once((*look.unknown, *now.silent)))
        if look.layer is Layer.BEHAVIOUR
        else look
        for look in found.looks
    )


def _well(found: Drift, names: Iterable[str]) -> set[str]:
    """Nodes of which everything is known and nothing differs."""
    bad = {node for _, node, _ in found.unknown} | {one.node for one in found.differences if one.weight is not Weight.EXPECTED}
    return set() if found.missing or any(node == CLUSTER for _, node, _ in found.unknown) else set(names) - bad


def _unexplained(found: Drift, further: Iterable[Difference]) -> list[Difference]:
    """Without the files that a phase would write again: that says it better."""
    phases = [one for one in found.differences if one.layer is Layer.CONFIGURATION]
    written = {(one.node, path) for one in phases for path in one.written}
    return [one for one in further if (one.node, one.subject.rpartition(" ")[2]) not in written]


def _told_once(silent: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(silent))


def _applied(stack: str) -> str:
    """Changes with every `up` that applies something."""
    file = paths.applied(stack)
    if not file.exists():
        return ""
    return hashlib.sha256(f"{file.stat().st_mtime_ns} {file.read_text(encoding='utf-8')}".encode()).hexdigest()[:16]
