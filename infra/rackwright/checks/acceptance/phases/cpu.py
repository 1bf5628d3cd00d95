"""Main memory of every node is as fast as that of its peers and as before: a missing DIMM or a wrong NUMA setting shows here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.acceptance.evaluators.speed import speed
from rackwright.checks.acceptance.phase import Finding, Job, Outputs, Phase, PhaseScope, compared, guarded, program, unknown
from rackwright.errors import UndeterminedError

_COPY: Final = program("memory_copy.py")
_REAL: Final = ("--mib", "256", "--seconds", "10")
_SMALL: Final = ("--mib", "8", "--seconds", "1")
"""If CPUs and memory are simulated, the machine is a developer's."""


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job per node, all at once: nodes share no memory."""
    sizes = _SMALL if _simulated(scope) else _REAL
    return [
        Job(f"copy-{node}", (node,), _COPY, sizes, whole_nodes=True, limit_s=180, cpus_per_task=_cpus(scope, node)) for node in scope.nodes
    ]


def _simulated(scope: PhaseScope) -> bool:
    return "capacity" in scope.declared.simulated


def _cpus(scope: PhaseScope, node: str) -> int:
    """Return all CPUs that the scheduler has."""
    return 1 if _simulated(scope) else int(scope.declared.nodes[node].get("cpus") or 1)


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings. A copy that differs is worse than a slow one. A simulated capacity has no baseline."""
    values = dict[str, float]()
    for node in scope.nodes:
        read = partial(records.record, outputs.get(f"copy-{node}"), node)
        yield guarded("memory_copies_are_right", node, partial(_right, node, read))
        try:
            values[node] = float(read()["value"])
        except UndeterminedError as error:
            yield unknown("memory_is_fast", node, str(error))
    check = "memory_is_fast"
    before = (
        {}
        if _simulated(scope)
        else {node: scope.baseline[key] for node in values if (key := f"cpu.{check}[{node}] memory-copy") in scope.baseline}
    )
    yield from speed(check, Quantity.MEMORY_COPY, values, hardware={node: _kind(scope, node) for node in values}, baseline=before)


def _right(node: str, read: Any) -> Finding:
    found = read()
    return compared(
        "memory_copies_are_right",
        node,
        f"{found['wrong']} of {found['processes']} copies differ",
        f"0 of {found['processes']} copies differ",
    )


def _kind(scope: PhaseScope, node: str) -> str:
    """Return the key of a node's peers: nodes of one group with as many CPUs; a node with simulated capacity has no peers."""
    record = scope.declared.nodes[node]
    return node if _simulated(scope) else f"{record.get('group')}-{record.get('cpus')}"


PHASE: Final = Phase("cpu", "Memory bandwidth", evaluate=evaluate, jobs=jobs)
