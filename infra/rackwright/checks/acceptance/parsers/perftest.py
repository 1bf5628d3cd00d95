"""Output of ib_write_bw and ib_write_lat of perftest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.tool_output import decimal, lines_of, quoted, refusing
from rackwright.errors import UndeterminedError

_TO_GBIT: Final = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
"""perftest counts 2^20 bytes as MB (perftest_parameters.h: format without --report_gbits)."""
_FIELD: Final = re.compile(r"(Device|Transport type|Connection type|Link type|Mtu)\s*:\s*(\S+)")
_TITLE: Final = re.compile(r"#\w+|BW[ _]\w+\[[^\]]+\]|MsgRate(?: Port\d)?\[\w+\]|t_\w+\[usec\]|[\d.]+% percentile\[usec\]|CPU_Util\[%\]")
"""Titles of columns (perftest_parameters.h, RESULT_FMT…). Releases and options differ in number and order, and NVIDIA's own release has
`BW min`."""
_TROUBLE: Final = re.compile(
    r"Couldn't .+|Could not .+|Unable to .+|Failed to .+|.*[Cc]ompletion with error.*|Failed status .*|IB device .+ not found"
    r"|No IB devices found|Did not detect devices|.*ommand not found|.*not installed|.* did not end within .*"
    r"|Correlation coefficient r\^2: .*|Can't produce a report"
)
_ABORTED: Final = re.compile(
    r"completion with error|Failed status \d|Failed to complete|Failed to exchange data|poll CQ failed|Couldn't p(ost|oll) |Couldn't read"
    r"|Correlation coefficient r\^2: .* < |Can't produce a report",
    re.IGNORECASE,
)
"""Messages of a test that ended early, or whose clock was too unsteady for a rate. Rows of a test by duration are printed before."""


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
    p99_us: float | None
    """None for releases that print no percentile."""


@refusing("perftest")
def parse_bandwidth(text: str) -> Bandwidth:
    """Return the result of ib_write_bw, from server or client. Of several rows of one size, the slowest counts.

    Raises UndeterminedError if there is no result line, or the test ended early.
    """
    fields = _fields(text)
    rows = _rows(text, "BW average")
    title = next(name for name in rows[0] if name.startswith("BW average"))
    unit = title[len("BW average[") : -1]
    if unit not in _TO_GBIT:
        raise UndeterminedError(f"ib_write_bw printed no known unit: {unit}")
    largest = max(row["#bytes"] for row in rows)
    average = min(row[title] for row in rows if row["#bytes"] == largest)
    mtu = int(fields["Mtu"].split("[")[0])
    return Bandwidth(fields["Device"], fields["Link type"], mtu, int(largest), average * _TO_GBIT[unit], "Bidirectional" in text)


@refusing("perftest")
def parse_latency(text: str) -> Latency:
    """Return the result of ib_write_lat. Raises UndeterminedError if there is no result line, or the test ended early."""
    fields = _fields(text)
    rows = _rows(text, "t_typical")
    smallest = min(row["#bytes"] for row in rows)
    row = max((row for row in rows if row["#bytes"] == smallest), key=lambda row: row["t_typical[usec]"])
    return Latency(fields["Device"], fields["Link type"], int(smallest), row["t_typical[usec]"], row.get("99% percentile[usec]"))


def _fields(text: str) -> dict[str, str]:
    found = dict(_FIELD.findall(text))
    missing = {"Device", "Link type", "Mtu"} - set(found)
    if missing:
        raise UndeterminedError(f"perftest did not run: {_trouble(text) or 'its header is missing ' + ', '.join(sorted(missing))}")
    return found


def _rows(text: str, title: str) -> list[dict[str, float]]:
    """Return the rows of the table with that title, by column. Lines that are no rows, for example warnings, are skipped."""
    titles, found = list[str](), list[dict[str, float]]()
    if aborted := _ABORTED.search(text):
        raise UndeterminedError(f"perftest gave no result: {_trouble(text) or quoted(aborted.group())}")
    for line in lines_of(text):
        if "#bytes" in line:
            titles = [name.replace("_", " ") if name.startswith("BW") else name for name in _TITLE.findall(line)]
        elif any(name.startswith(title) for name in titles) and re.match(r"\s*\d+\s+\d+\s", line):
            found.append(_row(line, titles))
    if not found:
        raise UndeterminedError(f"perftest gave no result: {_trouble(text) or 'its output is cut short'}")
    return found


def _row(line: str, titles: list[str]) -> dict[str, float]:
    cells = line.split()
    if len(cells) != len(titles):
        raise UndeterminedError(f'perftest printed {len(cells)} values under {len(titles)} titles: "{quoted(line)}"')
    return {name: decimal(cell) for name, cell in zip(titles, cells, strict=True)}


def _trouble(text: str) -> str:
    found = _TROUBLE.search(text)
    return quoted(found.group()) if found else ""
