"""Verdicts on the monitoring of a run: a folder with nothing but its metadata is no monitoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from rackwright.checks.acceptance.phase import Finding, compared, unknown
from rackwright.errors import UndeterminedError

MIN_SAMPLES: Final = 3
"""Minimum number of utilization samples for a verdict. Chosen: fewer show no trend."""


_SATURATED: Final = 4 * (2**32 - 1)
"""PortXmitData of adapters without 64-bit counters stops there (InfiniBand specification; programs/collective.py counts bytes)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a node."""

    second: float
    """Seconds since the run began."""
    cpu_busy: float
    """Share of all CPUs."""
    gpu_busy: tuple[float | None, ...]
    """Per cent, by GPU; None if the driver did not tell it, empty if there was no source."""
    sent_bytes: Mapping[str, int]
    """Bytes that each NIC has sent since it came up."""


def parse(records: Sequence[Mapping[str, Any]]) -> tuple[Sample, ...]:
    """Return the samples that programs write. Raises UndeterminedError if there are too few: no monitoring took place."""
    if len(records) < MIN_SAMPLES:
        raise UndeterminedError(f"{len(records)} samples were taken, at least {MIN_SAMPLES} are needed: the job's monitoring did not run")
    try:
        return tuple(
            Sample(float(each["second"]), float(each["cpu_busy"]), tuple(map(_load, each["gpu_busy"])), dict(each["sent_bytes"]))
            for each in records
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UndeterminedError(f"a sample cannot be read: {error!r}") from None


def _load(value: float | None) -> float | None:
    return None if value is None else float(value)


def gpus_worked(check: str, node: str, samples: Sequence[Sample], gpus: int) -> Finding:
    """Verify that every GPU was busy at least once."""
    seen = max((len(each.gpu_busy) for each in samples), default=0)
    if not seen:
        return unknown(check, node, "no sample has the load of a GPU")
    # A job sees only its own GPUs if they are confined, else all of the node: as many as the job has must have been busy.
    loads = [[each.gpu_busy[number] for each in samples if number < len(each.gpu_busy)] for number in range(seen)]
    worked = sum(any(load is not None and load > 0 for load in found) for found in loads)
    untold = sum(all(load is None for load in found) for found in loads)
    if worked < gpus <= worked + untold:
        return unknown(check, node, f"nvidia-smi does not tell the load of {untold} GPUs")
    return compared(check, node, f"{worked} GPUs at work", f"{gpus} GPUs at work", holds=worked >= gpus)


def rails_carried(check: str, node: str, samples: Sequence[Sample], rails: Sequence[str]) -> Finding:
    """Verify that every declared NIC sent data in a run over several nodes: a rail without traffic is not used."""
    first, last = samples[0].sent_bytes, samples[-1].sent_bytes
    missing = [rail for rail in rails if rail not in last or rail not in first]
    if missing:
        return unknown(check, node, f"no counter of {', '.join(missing)} was read")
    stuck = [rail for rail in rails if first[rail] == last[rail] == _SATURATED]
    if stuck:
        return unknown(check, node, f"the counter of {', '.join(stuck)} is at its maximum")
    silent = [rail for rail in rails if not _grows([each.sent_bytes[rail] for each in samples if rail in each.sent_bytes])]
    return compared(
        check,
        node,
        f"{len(rails) - len(silent)} rails carried data" + (f", not {', '.join(silent)}" if silent else ""),
        f"{len(rails)} rails carried data",
    )


def _grows(counts: Sequence[int]) -> bool:
    """Return whether a counter grew at any time; an administrator may reset it meanwhile (`perfquery -R`)."""
    return any(after > before for before, after in pairwise(counts))
