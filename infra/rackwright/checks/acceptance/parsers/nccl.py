"""Output of the programs of nccl-tests and rccl-tests, and the log of NCCL in between when NCCL_DEBUG is INFO."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rackwright.checks.acceptance.parsers.nccl_log import Connection, LogLine, connections, networks, providers, split_log
from rackwright.checks.cluster.harness.tool_output import Row as Cells
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, decimal, integer, lines_of, quoted, refusing
from rackwright.errors import UndeterminedError


@dataclass(frozen=True, slots=True)
class Device:
    """A rank's GPU as the program lists it."""

    rank: int
    host: str
    index: int
    product: str
    group: int = 0
    """Group of ranks that exchange data with each other only (NCCL_TESTS_SPLIT)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One message size. Seconds and bandwidth are the better of out of place and in place."""

    size_bytes: int
    busbw_gb_s: float | UnreadableValue
    wrong: int | UnreadableValue | None
    """Wrong elements, out of place and in place; None if results were not checked."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The message sizes that the program announces."""

    rows: int
    largest: int
    reduced: bool
    """Whether the memory of a GPU is too small for the requested size."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program of nccl-tests."""

    devices: tuple[Device, ...]
    rows: tuple[Row, ...]
    out_of_bounds_ok: bool
    connections: tuple[Connection, ...]
    networks: frozenset[str]
    """Network that NCCL reports, `IB`, `Socket`, `Libfabric`; empty without NCCL_DEBUG=INFO."""
    providers: frozenset[tuple[str, str]]
    """Hosts and their providers of libfabric, if aws-ofi-nccl reports them."""
    version: str | None
    nvls: bool | None
    """Whether NVLink SHARP is available on all GPUs; None if NCCL did not report it."""
    announced: Sizes | None

    @property
    def ranks(self) -> int:
        """Return the number of ranks. Programs without MPI are all rank 0."""
        return len({device.rank for device in self.devices})

    @property
    def groups(self) -> int:
        """Return the number of groups of ranks."""
        return len({device.group for device in self.devices})

    @property
    def largest(self) -> Row:
        """Return the row of the largest message, of several the slowest."""
        most = max(row.size_bytes for row in self.rows)
        same = [row for row in self.rows if row.size_bytes == most]
        unread = (row for row in same if isinstance(row.busbw_gb_s, UnreadableValue))
        return next(unread, None) or min(same, key=lambda row: row.busbw_gb_s)

    @property
    def wrong(self) -> int | None:
        """Return the wrong elements of all sizes; None if any size was not checked.

        Raises UndeterminedError if no wrong element was counted and a count was not read, or a row is missing.
        """
        counts = [row.wrong for row in self.rows]
        unread = [count for count in counts if isinstance(count, UnreadableValue)]
        found = sum(count for count in counts if not isinstance(count, UnreadableValue) and count)
        if unread and not found:
            raise UndeterminedError(unread[0].why)
        if self.announced and len(self.rows) < self.announced.rows and not found:
            raise UndeterminedError(f"nccl-tests printed {len(self.rows)} of {self.announced.rows} rows")
        return None if not found and any(count is None for count in counts) else found

    @property
    def bandwidth_gb_s(self) -> float:
        """Return the bus bandwidth of the largest message; raises UndeterminedError if it was not read or its row is missing."""
        found, size = self.largest.busbw_gb_s, self.largest.size_bytes
        if isinstance(found, UnreadableValue):
            raise UndeterminedError(found.why)
        if self.announced and 2 * size <= self.announced.largest:
            raise UndeterminedError(f"nccl-tests: the row of {self.announced.largest} B is missing, the largest is of {size} B")
        return found


_DEVICE: Final = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+ on\s+(\S+)\s+device\s+(\d+) \[[^]]+\] (.+)")
_COLUMNS: Final[tuple[str, ...]] = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)
"""Columns since 2.13 (nccl-tests, src/util.cu). Earlier releases print `error`, the largest deviation, no `root` if there is none, and
spaces in place of the `redop` of a program that reduces nothing (alltoall_perf)."""
_TYPE: Final = re.compile(r"(u?int\d+|float|half|double|bfloat16|fp8_?\w*|f8\w*|char)\S*")
_NUMBER: Final = re.compile(r"-?\d+([.,]\d+)?(e[+-]?\d+)?|N/A")
_PREAMBLE: Final = 5
"""Columns before the measurements: size to root."""
_BOUNDS: Final = re.compile(r"# Out of bounds values : (\S+) (OK|FAILED)")
_AVERAGE: Final = re.compile(r"# Avg bus bandwidth\s+: \S+")
_SIZES: Final = re.compile(r"minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\)")
_REDUCED: Final = re.compile(r"# Reducing maxBytes to (\d+) due to memory limitation")
_TROUBLE: Final = re.compile(
    r"[NR]CCL WARN|Test NCCL failure|Test CUDA failure|error while loading shared libraries|[Cc]ommand not found|Invalid number of GPUs"
    r"|Test timeout|Segmentation fault|Bus error|oom[-_]kill|^Killed|is neither on PATH nor in|not installed"
    r"|slurmstepd: error:|srun: error:"
)


_HARMLESS: Final = re.compile(r"\bras/|NET/Plugin|NET/OFI")
"""Warnings of a run that goes on without the service or the plugin."""


@refusing("nccl-tests")
def parse(text: str) -> Run:
    """Return one run from its whole output. Raises UndeterminedError if the run did not end."""
    parts = [split_log(line) for line in lines_of(text)]
    log, table = [part for _, part in parts if part is not None], "\n".join(before for before, _ in parts)
    rows = tuple(_rows([(before, part is not None) for before, part in parts]))
    bounds = [*_BOUNDS.finditer(table)]
    if not rows or not bounds or not _AVERAGE.search(table):
        trouble = [line for line in _said(parts) if _TROUBLE.search(line)]
        decisive = next(
            (line for line in trouble if not _HARMLESS.search(line)), trouble[0] if trouble else f"{len(rows)} sizes, no summary"
        )
        raise UndeterminedError(f"nccl-tests did not finish: {quoted(decisive)}")
    versions = re.findall(r"[NR]CCL version :? ?(\d[\d.]*\d)", text)
    nvls = re.findall(r"NVLS multicast support is (not )?available", text)
    return Run(
        devices=tuple(
            Device(int(rank), host, int(index), product.strip(), int(group or 0))
            for rank, group, host, index, product in _DEVICE.findall(table)
        ),
        rows=rows,
        out_of_bounds_ok=all(found.group(2) == "OK" for found in bounds),
        connections=tuple(connections(log)),
        networks=networks(log),
        providers=providers(log),
        version=versions[0] if versions else None,
        nvls=not any(nvls) if nvls else None,
        announced=_announced(table),
    )


def _said(parts: Sequence[tuple[str, LogLine | None]]) -> Iterator[str]:
    """Yield the texts of lines, without hosts and processes."""
    return (text for before, log in parts for text in (log.text if log else "", before) if text)


def _announced(table: str) -> Sizes | None:
    """Return the sizes that the program announces; None if it announces none."""
    found, reduced = _SIZES.search(table), _REDUCED.search(table)
    if found is None or (found[4] == "factor" and int(found[3]) < 2) or int(found[3]) < 1:
        return None
    most = int(reduced[1]) if reduced else int(found[2])
    size, sizes, largest = min(int(found[1]), most), 0, 0
    if found[4] == "bytes":
        sizes = (most - size) // int(found[3]) + 1
        return Sizes(sizes, size + (sizes - 1) * int(found[3]), reduced is not None)
    while 0 < size <= most:
        size, sizes, largest = size * int(found[3]), sizes + 1, size
    return Sizes(sizes, largest, reduced is not None)


def _rows(lines: Sequence[tuple[str, bool]]) -> Iterator[Row]:
    """Yield the rows of the table. The parts of a row that NCCL's log interrupted are put together.

    `lines`: text before the log, and whether a log followed on the same line.
    """
    columns, open_row, said = _COLUMNS, list[str](), ""
    for line, interrupted in lines:
        cells = line.split()
        if cells[:2] == ["#", "size"]:
            columns = tuple(cells[1:])
        starts = _starts_row(cells, line)
        if starts and open_row:
            yield _row(open_row, columns, said)
        if starts:
            open_row, said = cells, line
        elif open_row and cells and all(_NUMBER.fullmatch(cell) for cell in cells):
            open_row, said = [*open_row, *cells], f"{said} {line}"
        if open_row and cells and not interrupted and not _is_part(len(open_row), len(columns)):
            yield _row(open_row, columns, said)
            open_row = []
    if open_row:
        yield _row(open_row, columns, said)


def _is_part(cells: int, columns: int) -> bool:
    """Return whether a row ends where nccl-tests begins the next part of it: after `root`, and after the columns out of place."""
    body = (columns - _PREAMBLE) // 2
    return cells in (_PREAMBLE, _PREAMBLE + body)


def _starts_row(cells: list[str], line: str) -> bool:
    """Return whether a line begins a row: sizes and a type. Raises UndeterminedError for one without size."""
    if len(cells) < _PREAMBLE - 1 or cells[0].startswith("#"):
        return False
    typed = _TYPE.fullmatch(cells[2]) is not None
    if typed and not cells[0].isdigit():
        raise UndeterminedError(f'nccl-tests: a row without its size: "{quoted(line)}"')
    return typed or (cells[0].isdigit() and cells[1].isdigit() and len(cells) >= _PREAMBLE)


def _row(cells: list[str], columns: tuple[str, ...], line: str) -> Row:
    """Return one row; a number that was not read is UnreadableValue. In a row with other columns only the size is certain."""
    size = int(cells[0])
    named: dict[str, str] = {}
    if "error" in columns and len(cells) == len(columns) - 1 and _NUMBER.fullmatch(cells[3]):
        columns = tuple(name for name in columns if name != "redop")
    if len(cells) == len(columns):
        for name, cell in zip(columns, cells, strict=True):
            named[f"{name} in place" if name in named else name] = cell
    row = Cells(f"{size} B", named, line)
    speeds = [row.read(name, decimal) for name in ("busbw", "busbw in place")]
    unread = next((value for value in speeds if isinstance(value, UnreadableValue)), None)
    best = max(value for value in speeds if not isinstance(value, UnreadableValue)) if unread is None else unread
    if "error" in columns:  # The program compares deviations with its own limit, and counts those above it as out of bounds.
        counts = [
            0 if isinstance(row.counter(name, decimal), float) else row.counter(name, integer) for name in ("error", "error in place")
        ]
    else:
        counts = [row.counter(name, integer) for name in ("#wrong", "#wrong in place")]
    return Row(size, best, _wrong(counts))


def _wrong(counts: list[int | UnreadableValue | None]) -> int | UnreadableValue | None:
    """Return the sum; an unread count matters only if no other is above 0. Results in place are not checked by all programs (alltoall)."""
    found = sum(count for count in counts if not isinstance(count, UnreadableValue) and count is not None)
    unread = next((count for count in counts if isinstance(count, UnreadableValue)), None)
    if found or (unread is None and counts[0] is not None):
        return found
    return unread
