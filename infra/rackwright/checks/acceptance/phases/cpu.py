"""Main memory of every node is as fast as that of its peers and as it was: one DIMM too few, or a wrong NUMA setting, shows here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.judges import records
from rackwright.checks.acceptance.judges.speed import speed
from rackwright.checks.acceptance.phase import Finding, Job, Outputs, Phase, Scope, compared, program, told, unknown
from rackwright.errors import UndeterminedError

_COPY: Final = program("memory_copy.py")
_REAL: Final = ("--mib", "256", "--seconds", "10")
_SMALL: Final = ("--mib", "8", "--seconds", "1")
"""Where CPUs and memory are simulated, the machine is somebody's laptop."""


def jobs(scope: Scope) -> Sequence[Job]:
    """All nodes at once: they share no memory."""
    sizes = _SMALL if _simulated(scope) else _REAL
    return [
        Job(f"copy-{node}", (node,), _COPY, sizes, whole_nodes=True, limit_s=180, cpus_per_task=_cpus(scope, node)) for node in scope.nodes
    ]


def _simulated(scope: Scope) -> bool:
    return "capacity" in scope.declared.simulated


def _cpus(scope: Scope, node: str) -> int:
    """All that the scheduler has."""
    return 1 if _simulated(scope) else int(scope.declared.nodes[node].get("cpus") or 1)


def judge(scope: Scope, outputs: Outputs) -> Iterator[Finding]:
    """A copy that differs is worse than a slow one. Where the capacity is simulated there is nothing that a baseline could be of."""
    values = dict[str, float]()
    for node in scope.nodes:
        look = partial(records.record, outputs.get(f"copy-{node}"), node)
        yield told("memory_copies_are_right", node, partial(_right, node, look))
        try:
            values[node] = float(look()["value"])
        except UndeterminedError as error:
            yield unknown("memory_is_fast", node, str(error))
    check = "memory_is_fast"
    before = (
        {}
        if _simulated(scope)
        else {node: scope.baseline[key] for node in values if (key := f"cpu.{check}[{node}] memory-copy") in scope.baseline}
    )
    yield from speed(check, Quantity.MEMORY_COPY, values, hardware={node: _kind(scope, node) for node in values}, baseline=before)


def _right(node: str, look: Any) -> Finding:
    found = look()
    return compared(
        "memory_copies_are_right",
        node,
        f"{found['wrong']} of {found['processes']} copies differ",
        f"0 of {found['processes']} copies differ",
    )


def _kind(scope: Scope, node: str) -> str:
    """Peers are nodes of one group with as many CPUs; where the capacity is simulated nobody is anybody's peer."""
    record = scope.declared.nodes[node]
    return node if _simulated(scope) else f"{record.get('group')}-{record.get('cpus')}"


PHASE: Final = Phase("cpu", "Memory bandwidth", judge=judge, jobs=jobs)
