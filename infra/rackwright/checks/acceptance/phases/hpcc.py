"""HPCC on all cores of every node: results are right under load, and LINPACK and STREAM are as fast as those of peers and as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.acceptance.evaluators.speed import speed
from rackwright.checks.acceptance.parsers import hpcc
from rackwright.checks.acceptance.parsers.hpcc import Benchmark
from rackwright.checks.acceptance.phase import Finding, Job, Outputs, Phase, PhaseScope, compared, guarded, program, skipped, unknown
from rackwright.checks.cluster.harness.tool_output import lines_of, quoted
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason

_HPCC: Final = program("hpcc.py")
SECONDS: Final = 1800
"""Limit of one run. RandomAccess takes up to a minute in each of its forms (HPCC: TIME_BOUND)."""
_REAL: Final = ("--rows", "2500", "--seconds", str(SECONDS))
"""50 MB of the matrix per core: STREAM's arrays are then larger than a core's share of any last cache."""
_SMALL: Final = ("--rows", "400", "--processes", "1", "--seconds", "60")
"""If CPUs and memory are simulated, the machine is a developer's."""
_FIGURES: Final[Mapping[str, tuple[Quantity, Callable[[Mapping[str, float]], float]]]] = {
    "linpack_is_fast": (Quantity.HPL, lambda figures: 1000 * figures["HPL_Tflops"]),
    "triad_is_fast": (Quantity.MEMORY_TRIAD, lambda figures: figures["StarSTREAM_Triad"] * figures["CommWorldProcs"]),
}
"""STREAM's rate is the mean of all processes, which run at the same time."""


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job per node, all at once: nodes share nothing that the tests use."""
    sizes, limit = (_SMALL, 120) if _simulated(scope) else (_REAL, SECONDS + 60)
    return [
        Job(f"hpcc-{node}", (node,), _HPCC, sizes, whole_nodes=True, limit_s=limit, cpus_per_task=_cpus(scope, node))
        for node in scope.nodes
        if _has_hpcc(scope, node)
    ]


def _has_hpcc(scope: PhaseScope, node: str) -> bool:
    """Return whether the plan installs HPCC on a node."""
    features = scope.declared.nodes[node].get("features") or ()
    return "hpcc" in (scope.declared.node_stack.get("tools") or ()) and "tools" in features


def _simulated(scope: PhaseScope) -> bool:
    return "capacity" in scope.declared.simulated


def _cpus(scope: PhaseScope, node: str) -> int:
    """Return all CPUs that the scheduler has."""
    return 1 if _simulated(scope) else int(scope.declared.nodes[node].get("cpus") or 1)


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings. A wrong result is worse than a slow one. A simulated capacity has no baseline."""
    planned = [node for node in scope.nodes if _has_hpcc(scope, node)]
    for node in scope.nodes:
        if node not in planned:
            yield from (skipped(check, node, SkipReason.NOT_IN_PLAN) for check in ("results_are_right", *_FIGURES))
    read = {node: partial(_benchmark, outputs, node) for node in planned}
    for node in planned:
        yield guarded("results_are_right", node, partial(_right, node, read[node]))
    for check, (quantity, value_of) in _FIGURES.items():
        yield from _fast(scope, check, quantity, value_of, read)


def _benchmark(outputs: Outputs, node: str) -> Benchmark:
    answer = records.record(outputs.get(f"hpcc-{node}"), node)
    if not answer["summary"]:
        said = lines_of(f"{answer['err']}\n{answer['out']}")
        raise UndeterminedError(f"hpcc ended with status {answer['rc']}: {quoted(said[0]) if said else 'it printed nothing'}")
    return hpcc.parse(answer["summary"])


def _right(node: str, read: Callable[[], Benchmark]) -> Finding:
    found = read()
    words = "all tests right" if found.right else f"a test failed: {found.failure or 'Success is 0'}"
    return compared("results_are_right", node, words, "all tests right")


def _fast(
    scope: PhaseScope,
    check: str,
    quantity: Quantity,
    value_of: Callable[[Mapping[str, float]], float],
    read: Mapping[str, Callable[[], Benchmark]],
) -> Iterator[Finding]:
    values = dict[str, float]()
    for node, benchmark in read.items():
        try:
            values[node] = value_of(benchmark().figures)
        except UndeterminedError as error:
            yield unknown(check, node, str(error))
    known = {node: scope.baseline.get(f"hpcc.{check}[{node}] {quantity.value}") for node in values}
    before = {} if _simulated(scope) else {node: value for node, value in known.items() if value is not None}
    yield from speed(check, quantity, values, hardware={node: _kind(scope, node) for node in values}, baseline=before)


def _kind(scope: PhaseScope, node: str) -> str:
    """Return the key of a node's peers: nodes of one group with as many CPUs; a node with simulated capacity has no peers."""
    record = scope.declared.nodes[node]
    return node if _simulated(scope) else f"{record.get('group')}-{record.get('cpus')}"


PHASE: Final = Phase("hpcc", "CPU (HPCC)", evaluate=evaluate, jobs=jobs)
