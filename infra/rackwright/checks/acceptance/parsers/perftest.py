"""Output of ib_write_bw and ib_write_lat of perftest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.tool_output import refusing
from rackwright.errors import UndeterminedError

_TO_GBIT: Final = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
"""perftest counts 2^20 bytes as MB (perftest_parameters.h: format without --report_gbits)."""
_FIELD: Final = re.compile(r"(Device|Transport type|Connection type|Link type|Mtu)\s*:\s*(\S+)")
_TROUBLE: Final = re.compile(
    r"(Couldn't [^\n]+|Could not [^\n]+|Unable to [^\n]+|Failed to [^\n]+|[^\n]*Completion with error[^\n]*"
    r"|IB device [^\n]+ not found|Did not detect devices|[^\n]*ommand not found)"
)


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The result of a bandwidth test for its largest message."""

    device: str
    link: str
    """`IB` or `Ethernet`."""
    mtu: int
    message_bytes: int
    average_gbit_s: float
    both_ways: bool


@dataclass(frozen=True, slots=True)
class Latency:
    """The result of a latency test for its smallest message, in µs, half of the round trip."""

    device: str
    link: str
    message_bytes: int
    typical_us: float
    p99_us: float


@refusing("perftest")
def parse_bandwidth(text: str) -> Bandwidth:
    """Return the result of ib_write_bw, from server or client. Raises UndeterminedError if there is no result line."""
    fields = _fields(text)
    unit = re.search(r"BW average\[([A-Za-z/]+)\]", text)
    rows = _rows(text, "BW average", 5)
    if unit is None or unit.group(1) not in _TO_GBIT:
        raise UndeterminedError(f"ib_write_bw printed no known unit: {unit.group(1) if unit else 'none'}")
    size, _, _, average, _ = max(rows, key=lambda row: row[0])[:5]
    both = "Bidirectional" in text
    return Bandwidth(
        fields["Device"], fields["Link type"], int(fields["Mtu"].split("[")[0]), int(size), average * _TO_GBIT[unit.group(1)], both
    )


@refusing("perftest")
def parse_latency(text: str) -> Latency:
    """Return the result of ib_write_lat. Raises UndeterminedError if there is no result line."""
    fields = _fields(text)
    size, _, _, _, typical, _, _, p99 = min(_rows(text, "t_typical", 9), key=lambda row: row[0])[:8]
    return Latency(fields["Device"], fields["Link type"], int(size), typical, p99)


def _fields(text: str) -> dict[str, str]:
    found = dict(_FIELD.findall(text))
    missing = {"Device", "Link type", "Mtu"} - set(found)
    if missing:
        raise UndeterminedError(f"perftest did not run: {_trouble(text) or 'its header is missing ' + ', '.join(sorted(missing))}")
    return found


def _rows(text: str, title: str, columns: int) -> list[list[float]]:
    """Return the lines of numbers below the header line."""
    _, _, table = text.partition(title)
    rows = [line.split() for line in table.splitlines()[1:]]
    numbers = [
        [float(cell) for cell in row] for row in rows if len(row) >= columns and all(re.fullmatch(r"\d+(\.\d+)?", cell) for cell in row)
    ]
    if not numbers:
        raise UndeterminedError(f"perftest gave no result: {_trouble(text) or 'its output is cut short'}")
    return numbers


def _trouble(text: str) -> str:
    found = _TROUBLE.search(text)
    return found.group(1).strip() if found else ""
