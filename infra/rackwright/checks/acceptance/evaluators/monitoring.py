"""Verdicts on the monitoring of a run: a folder with nothing but its metadata is no monitoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.acceptance.phase import Finding, compared, unknown
from rackwright.errors import UndeterminedError

MIN_SAMPLES: Final = 3
"""Minimum number of utilization samples for a verdict. Chosen: fewer show no trend."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a node."""

    second: float
    """Seconds since the run began."""
    cpu_busy: float
    """Share of all CPUs."""
    gpu_busy: tuple[float, ...]
    """Per cent, by GPU; empty if there was no source."""
    sent_bytes: Mapping[str, int]
    """Bytes that each NIC has sent since it came up."""


def parse(records: Sequence[Mapping[str, Any]]) -> tuple[Sample, ...]:
    """Return the samples that programs write. Raises UndeterminedError if there are too few: no monitoring took place."""
    if len(records) < MIN_SAMPLES:
        raise UndeterminedError(f"{len(records)} samples were taken, at least {MIN_SAMPLES} are needed: the job's monitoring did not run")
    try:
        return tuple(
            Sample(float(each["second"]), float(each["cpu_busy"]), tuple(map(float, each["gpu_busy"])), dict(each["sent_bytes"]))
            for each in records
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UndeterminedError(f"a sample cannot be read: {error!r}") from None


def gpus_worked(check: str, node: str, samples: Sequence[Sample], gpus: int) -> Finding:
    """Verify that every GPU was busy at least once."""
    seen = max((len(each.gpu_busy) for each in samples), default=0)
    if not seen:
        return unknown(check, node, "no sample has the load of a GPU")
    # A job sees only its own GPUs if they are confined, else all of the node: as many as the job has must have been busy.
    worked = sum(any(number < len(each.gpu_busy) and each.gpu_busy[number] > 0 for each in samples) for number in range(seen))
    return compared(check, node, f"{worked} GPUs at work", f"{gpus} GPUs at work", holds=worked >= gpus)


def rails_carried(check: str, node: str, samples: Sequence[Sample], rails: Sequence[str]) -> Finding:
    """Verify that every declared NIC sent data in a run over several nodes: a rail without traffic is not used."""
    first, last = samples[0].sent_bytes, samples[-1].sent_bytes
    missing = [rail for rail in rails if rail not in last or rail not in first]
    if missing:
        return unknown(check, node, f"no counter of {', '.join(missing)} was read")
    silent = [rail for rail in rails if last[rail] <= first[rail]]
    return compared(
        check,
        node,
        f"{len(rails) - len(silent)} rails carried data" + (f", not {', '.join(silent)}" if silent else ""),
        f"{len(rails)} rails carried data",
    )
