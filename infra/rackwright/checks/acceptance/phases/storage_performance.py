"""Speed and safety of the shared file system per node, alone and all at once: fsynced data survives, and data returns unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.acceptance.evaluators.speed import shown, speed
from rackwright.checks.acceptance.phase import Finding, Job, Measurement, Outputs, Phase, PhaseScope, compared, guarded, program, unknown
from rackwright.errors import UndeterminedError
from rackwright.inventory.concurrency import HERE

QUANTITIES: Final = {
    "writes_are_fast": Quantity.STORAGE_WRITE,
    "reads_are_fast": Quantity.STORAGE_READ,
    "metadata_is_fast": Quantity.STORAGE_METADATA,
    "small_files_are_fast": Quantity.STORAGE_SMALL_FILES,
    "fsync_is_fast": Quantity.STORAGE_FSYNC,
}
_SPEED: Final = program("storage_speed.py")
_KILL: Final = program("storage_kill.py")
_REAL: Final = ("--mib", "4096", "--files", "2000", "--fsyncs", "500")
_SMALL: Final = ("--mib", "4", "--files", "8", "--fsyncs", "10")
"""Limits for the lab: containers on one disk."""


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return the jobs on all nodes at once, then on each alone; then jobs whose writers are killed, and jobs that read what is left."""
    if scope.folder is None:
        return ()
    sizes = (scope.folder, *(_SMALL if _lab(scope) else _REAL))
    found = [Job(f"together-{part.name}", part.nodes, _SPEED, sizes, limit_s=600, memory_mib=256, shared=True) for part in scope.parts]
    found += [
        Job(f"alone-{node}", (node,), _SPEED, sizes, limit_s=600, memory_mib=256, round=1 + number, shared=True)
        for number, node in enumerate(scope.nodes)
    ]
    last = 1 + len(scope.nodes)
    found += [
        Job(f"kill-{part.name}", part.nodes, _KILL, ("write", scope.folder), limit_s=120, round=last, shared=True) for part in scope.parts
    ]
    found += [
        Job(f"look-{part.name}", part.nodes, _KILL, ("read", scope.folder, *scope.nodes), limit_s=120, round=last + 1, shared=True)
        for part in scope.parts
    ]
    return found


def _lab(scope: PhaseScope) -> bool:
    return scope.declared.target in HERE


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the speed of a node alone, against baseline and peers; of all together, on the submitting node; integrity; surviving data."""
    alone = {node: partial(records.record, outputs.get(f"alone-{node}"), node) for node in scope.nodes}
    for check, quantity in QUANTITIES.items():
        yield from _fast(scope, check, quantity, alone)
    for node in scope.nodes:
        yield guarded("bytes_come_back", node, partial(_integrity, node, alone[node]))
        yield guarded("survives_a_killed_writer", node, partial(_survived, scope, outputs, node))
    yield guarded("all_at_once", scope.submitter, partial(_aggregate, scope, outputs))


def _fast(scope: PhaseScope, check: str, quantity: Quantity, alone: dict[str, Any]) -> Iterator[Finding]:
    values = dict[str, float]()
    for node, read in alone.items():
        try:
            values[node] = _value(read(), quantity)
        except UndeterminedError as error:
            yield unknown(check, node, str(error))
    # The lab's figures are those of a machine that runs other work too: they are reported and compared with nothing.
    before = (
        {}
        if _lab(scope)
        else {
            node: scope.baseline[key]
            for node in values
            if (key := f"storage_performance.{check}[{node}] {quantity.value}") in scope.baseline
        }
    )
    hardware = {node: node if _lab(scope) else str(scope.declared.nodes[node].get("group")) for node in values}
    yield from speed(check, quantity, values, hardware=hardware, baseline=before)


def _value(found: dict[str, Any], quantity: Quantity) -> float:
    values = {each["quantity"]: each["value"] for each in found.get("figures", ())}
    if quantity.value not in values:
        raise UndeterminedError(f"{quantity.value} was not measured")
    return float(values[quantity.value])


def _integrity(node: str, read: Any) -> Finding:
    return compared("bytes_come_back", node, f"{read()['wrong']} files changed", "0 files changed")


def _survived(scope: PhaseScope, outputs: Outputs, node: str) -> Finding:
    """Return the finding on killed writers: every node must see at least as many whole records as fsync had confirmed."""
    written = next((output for name, output in outputs.items() if name.startswith("kill-") and node in output.job.nodes), None)
    safe = int(records.record(written, node)["acknowledged"])
    lookers = [output for name, output in outputs.items() if name.startswith("look-")]
    seen = {each: int(records.record(output, each)["found"][node]) for output in lookers for each in output.job.nodes}
    if set(seen) != set(scope.nodes):
        raise UndeterminedError(f"{len(seen)} of {len(scope.nodes)} nodes read the file")
    least = min(seen, key=lambda each: seen[each])
    found = f"{seen[least]} of {safe} records, seen from {least}" if seen[least] < safe else f"all {safe} records"
    return compared("survives_a_killed_writer", node, found, f"all {safe} records")


def _aggregate(scope: PhaseScope, outputs: Outputs) -> Finding:
    """Return the finding on all nodes at once: their total bytes per second, written and read, and changed files."""
    found = {
        each: records.record(output, each) for name, output in outputs.items() if name.startswith("together-") for each in output.job.nodes
    }
    missing = sorted(set(scope.nodes) - set(found))
    if missing or not found:
        raise UndeterminedError(f"no record of {', '.join(missing) or 'any node'}")
    sums = {
        quantity: sum(_value(each, quantity) for each in found.values()) for quantity in (Quantity.STORAGE_WRITE, Quantity.STORAGE_READ)
    }
    wrong = sum(int(each["wrong"]) for each in found.values())
    words = f"{wrong} files changed; " + ", ".join(f"{quantity.value} {shown(quantity, value)}" for quantity, value in sums.items())
    figures = [Measurement(f"{quantity.value}-all", value, quantity.unit.value) for quantity, value in sums.items()]
    return compared("all_at_once", scope.submitter, words, "0 files changed", holds=wrong == 0, measurements=figures)


PHASE: Final = Phase("storage_performance", "Storage performance", evaluate=evaluate, jobs=jobs)
