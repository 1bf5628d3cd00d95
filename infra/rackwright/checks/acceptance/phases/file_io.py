"""Random I/O with fio on the shared file system and on each node's scratch: checksums hold, and rates are those of peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from errno import EILSEQ, EIO, ENODATA, EROFS, EUCLEAN
from functools import partial
from typing import Any, Final

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.acceptance.evaluators.speed import speed
from rackwright.checks.acceptance.parsers import fio
from rackwright.checks.acceptance.parsers.fio import IoResult
from rackwright.checks.acceptance.phase import Finding, Job, Outputs, Phase, PhaseScope, compared, guarded, program, skipped, unknown
from rackwright.errors import UndeterminedError
from rackwright.inventory.concurrency import HERE
from rackwright.report.verdict import SkipReason

_FIO: Final = program("file_io.py")
_REAL: Final = ("--mib", "1024", "--processes", "4", "--seconds", "20")
_SMALL: Final = ("--mib", "8", "--processes", "1", "--seconds", "1")
"""Sizes for the lab: containers on one disk."""
_FAULTS: Final = frozenset({EIO, EILSEQ, ENODATA, EROFS, EUCLEAN})
"""Errors of a disk or file system that lost or changed data; a wrong checksum is EILSEQ. Others, such as ENOSPC, prove nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file system, and its checks."""

    job: str
    right: str
    quantities: Mapping[str, tuple[str, Quantity]]
    """Direction and quantity by check."""
    folder: Callable[[PhaseScope, str], str | None]
    """Folder of a node; None if the plan has none there."""
    options: tuple[str, ...] = ()
    """More options of the program."""


def _shared(scope: PhaseScope, _node: str) -> str | None:
    return scope.folder if scope.mount is not None else None


def _scratch(scope: PhaseScope, node: str) -> str | None:
    planned = scope.declared.node_stack.get("scratch")
    return str(planned["mount"]) if planned and "scratch" in _features(scope, node) else None


PLACES: Final = (
    Place(
        "shared",
        "blocks_are_right",
        {
            "random_writes_are_fast": ("write", Quantity.STORAGE_RANDOM_WRITE),
            "random_reads_are_fast": ("read", Quantity.STORAGE_RANDOM_READ),
        },
        _shared,
    ),
    Place(
        "scratch",
        "scratch_blocks_are_right",
        {
            "scratch_writes_are_fast": ("write", Quantity.SCRATCH_RANDOM_WRITE),
            "scratch_reads_are_fast": ("read", Quantity.SCRATCH_RANDOM_READ),
        },
        _scratch,
        ("--mounted",),
    ),
)


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job per node and place: all nodes at once on the shared file system, then all on their own scratch."""
    sizes = _SMALL if _lab(scope) else _REAL
    return [
        Job(
            f"{place.job}-{node}",
            (node,),
            _FIO,
            (folder, *sizes, *place.options),
            whole_nodes=True,
            limit_s=420,
            round=number,
            shared=place.job == "shared",
        )
        for number, place in enumerate(PLACES)
        for node in scope.nodes
        if (folder := place.folder(scope, node)) and _has_fio(scope, node)
    ]


def _features(scope: PhaseScope, node: str) -> Sequence[str]:
    return tuple(scope.declared.nodes[node].get("features") or ())


def _has_fio(scope: PhaseScope, node: str) -> bool:
    """Return whether the plan installs fio on a node."""
    return "fio" in (scope.declared.node_stack.get("tools") or ()) and "tools" in _features(scope, node)


def _lab(scope: PhaseScope) -> bool:
    return scope.declared.target in HERE


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings of each place. A node without fio or without the place in the plan is skipped."""
    for place in PLACES:
        planned = [node for node in scope.nodes if _has_fio(scope, node) and (place.job == "shared" or place.folder(scope, node))]
        for node in scope.nodes:
            if node not in planned:
                yield from (skipped(check, node, SkipReason.NOT_IN_PLAN) for check in (place.right, *place.quantities))
        read = {node: partial(_results, scope, outputs, place, node) for node in planned}
        for node in planned:
            yield guarded(place.right, node, partial(_right, place.right, node, read[node]))
        for check, (direction, quantity) in place.quantities.items():
            yield from _fast(scope, check, direction, quantity, read)


def _results(scope: PhaseScope, outputs: Outputs, place: Place, node: str) -> Mapping[str, tuple[IoResult, int]]:
    """Return result and status of both jobs of fio; raises UndeterminedError if one gave none."""
    if place.folder(scope, node) is None:
        raise UndeterminedError(f"nothing was written: {scope.error or 'the plan has no file system that all jobs may write to'}")
    answer = records.record(outputs.get(f"{place.job}-{node}"), node)
    return {name: (fio.parse(records.tool(answer, name)), int(answer[name]["rc"])) for name in ("write", "read")}


def _right(check: str, node: str, read: Callable[[], Mapping[str, tuple[IoResult, int]]]) -> Finding:
    """Return whether all blocks came back: a wrong checksum and an I/O error fail, other errors leave it unknown."""
    results = read()
    for name, (result, _) in results.items():
        for number in result.errors.values():
            words = (
                f"{name}: {os.strerror(number) if number != EILSEQ else 'a checksum differs'} ({'; '.join(result.notes) or 'no message'})"
            )
            if number not in _FAULTS:
                raise UndeterminedError(f"fio ended with error {number}: {words}")
            return compared(check, node, words, "all blocks unchanged")
    written, status = results["write"]
    back = sum(each.bytes_moved for each in written.streams if each.direction == "read")
    if status or not back:
        raise UndeterminedError(f"fio ended with status {status}, {back} bytes were read back")
    return compared(check, node, "all blocks unchanged", "all blocks unchanged")


def _fast(scope: PhaseScope, check: str, direction: str, quantity: Quantity, read: Mapping[str, Any]) -> Iterator[Finding]:
    values = dict[str, float]()
    for node, results in read.items():
        try:
            result, status = results()[direction]
            if status or result.errors:
                raise UndeterminedError(f"fio ended with status {status}: {'; '.join(result.notes) or 'no message'}")
            values[node] = result.operations_s(direction)
        except UndeterminedError as error:
            yield unknown(check, node, str(error))
    known = {node: scope.baseline.get(f"file_io.{check}[{node}] {quantity.value}") for node in values}
    # The lab's figures are those of a machine that runs other work too: they are reported and compared with nothing.
    before = {} if _lab(scope) else {node: value for node, value in known.items() if value is not None}
    hardware = {node: node if _lab(scope) else str(scope.declared.nodes[node].get("group")) for node in values}
    yield from speed(check, quantity, values, hardware=hardware, baseline=before)


PHASE: Final = Phase("file_io", "Random I/O (fio)", evaluate=evaluate, jobs=jobs)
