"""Output of the programs of nccl-tests, and the lines of NCCL between theirs when NCCL_DEBUG is INFO."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rackwright.checks.cluster.harness.tool_output import Row as Cells
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, decimal, integer, quoted, refusing
from rackwright.errors import UndeterminedError


class Transport(StrEnum):
    """The path over which two ranks exchange data."""

    NVLINK = "P2P"
    """Peer to peer inside a node; NCCL does not report whether over NVLink or PCIe."""
    SHARED_MEMORY = "SHM"
    INFINIBAND = "IB"
    """InfiniBand or RoCE: NCCL calls both IB."""
    LIBFABRIC = "Libfabric"
    """EFA, through aws-ofi-nccl."""
    SOCKET = "Socket"
    OTHER_NETWORK = "NET"


@dataclass(frozen=True, slots=True)
class Device:
    """A rank's GPU as the program lists it."""

    rank: int
    host: str
    index: int
    product: str


@dataclass(frozen=True, slots=True)
class Row:
    """One message size. Seconds and bandwidth are the better of out of place and in place."""

    size_bytes: int
    busbw_gb_s: float | UnreadableValue
    wrong: int | UnreadableValue | None
    """Wrong elements, out of place and in place; None if results were not checked."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One channel between two ranks."""

    host: str
    """Host that reports the connection, as it names itself."""
    transport: Transport
    direct: bool
    """Whether the NIC accesses GPU memory directly (GDRDMA)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program of nccl-tests."""

    devices: tuple[Device, ...]
    rows: tuple[Row, ...]
    out_of_bounds_ok: bool
    average_busbw_gb_s: float
    connections: tuple[Connection, ...]
    networks: frozenset[str]
    """Network that NCCL reports, `IB`, `Socket`, `Libfabric`; empty without NCCL_DEBUG=INFO."""
    version: str | None
    nvls: bool | None
    """Whether NVLink SHARP is available on all GPUs; None if NCCL did not report it."""

    @property
    def largest(self) -> Row:
        """Return the row of the largest message."""
        return max(self.rows, key=lambda row: row.size_bytes)

    @property
    def wrong(self) -> int | None:
        """Return the wrong elements of all sizes; None if any size was not checked.

        Raises UndeterminedError if no wrong element was counted and a count was not read.
        """
        counts = [row.wrong for row in self.rows]
        unread = [count for count in counts if isinstance(count, UnreadableValue)]
        found = sum(count for count in counts if not isinstance(count, UnreadableValue) and count)
        if unread and not found:
            raise UndeterminedError(unread[0].why)
        return None if not found and any(count is None for count in counts) else found

    @property
    def bandwidth_gb_s(self) -> float:
        """Return the bus bandwidth of the largest message; raises UndeterminedError if it was not read."""
        found = self.largest.busbw_gb_s
        if isinstance(found, UnreadableValue):
            raise UndeterminedError(found.why)
        return found


_DEVICE: Final = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+(\d+) \[[^]]+\] (.+)")
_COLUMNS: Final = 13
"""size, count, type, redop, root; then time, algbw, busbw and #wrong, out of place and in place (nccl-tests, src/common.cu)."""
_LABEL: Final = re.compile(r"^\s*(?:\[\d+\]|\d+:)\s")
"""Prefix of a line by mpirun and `srun --label`."""
_CHANNEL: Final = re.compile(
    r"^(?:\[[^]]*\] )?(\S+?):\d+:\d+ \[\d+\] NCCL INFO (?:Channel|Ring) [\d/]+ : \d+\S* -> \d+\S* (?:\[(?:send|receive)\] )?via (\S+.*)$"
)
_NETWORK: Final = re.compile(r"NCCL INFO Using network (.+?)\s*$")
_BOUNDS: Final = re.compile(r"# Out of bounds values : (\d+) (OK|FAILED)")
_AVERAGE: Final = re.compile(r"# Avg bus bandwidth\s+: (\d+(?:[.,]\d+)?(?:e[+-]?\d+)?)\s")
_TROUBLE: Final = re.compile(
    r"(NCCL WARN .+|Test NCCL failure .+|.*Test CUDA failure .+|.*[Cc]ommand not found.*|Killed|slurmstepd: error: .+|srun: error: .+)"
)


@refusing("nccl-tests")
def parse(text: str) -> Run:
    """Return one run from its whole output. Raises UndeterminedError if the run did not end."""
    rows = tuple(_rows(text))
    bounds, average = _BOUNDS.search(text), _AVERAGE.search(text)
    if not rows or bounds is None or average is None:
        trouble = _TROUBLE.findall(text)
        raise UndeterminedError(f"nccl-tests did not finish: {trouble[0].strip() if trouble else f'{len(rows)} sizes, no summary'}")
    _complete(text, rows)
    versions = re.findall(r"NCCL version (\d[\d.]*\d)", text)
    nvls = re.findall(r"NVLS multicast support is (not )?available", text)
    return Run(
        devices=tuple(Device(int(rank), host, int(index), product.strip()) for rank, host, index, product in _DEVICE.findall(text)),
        rows=rows,
        out_of_bounds_ok=bounds.group(2) == "OK",
        average_busbw_gb_s=decimal(average.group(1)),
        connections=tuple(_connections(text)),
        networks=frozenset(_network(found) for found in re.findall(_NETWORK.pattern, text, re.MULTILINE)),
        version=versions[0] if versions else None,
        nvls=not any(nvls) if nvls else None,
    )


def _rows(text: str) -> Iterator[Row]:
    """Yield the rows of the table: lines that begin with two whole numbers and a type. Raises UndeterminedError for one without size."""
    for line in text.splitlines():
        cells = _LABEL.sub("", line).split()
        if len(cells) < 5 or not re.fullmatch(r"(u?int\d+|float|half|double|bfloat16|fp8_?\w*|f8\w*|char)\S*", cells[2]):
            continue
        if not (cells[0].isdigit() and cells[1].isdigit()):
            raise UndeterminedError(f'nccl-tests: a row without its size: "{quoted(line)}"')
        yield _row(int(cells[0]), cells, line)


def _row(size: int, cells: list[str], line: str) -> Row:
    """Return one row; a number that was not read is UnreadableValue. In a row with other columns only the size is certain."""
    whole = len(cells) == _COLUMNS
    row = Cells(f"{size} B", {name: cells[place] for name, place in _PLACES.items()} if whole else {}, line)
    speeds = [row.read(name, decimal) for name in ("busbw", "busbw in place")]
    counts = [row.counter(name, integer) for name in ("#wrong", "#wrong in place")]
    unread = next((value for value in speeds if isinstance(value, UnreadableValue)), None)
    return Row(size, max(value for value in speeds if not isinstance(value, UnreadableValue)) if unread is None else unread, _wrong(counts))


_PLACES: Final = {"busbw": 7, "#wrong": 8, "busbw in place": 11, "#wrong in place": 12}


def _wrong(counts: list[int | UnreadableValue | None]) -> int | UnreadableValue | None:
    """Return the sum; an unread count matters only if no other is above 0."""
    found = [count for count in counts if not isinstance(count, UnreadableValue) and count is not None]
    unread = next((count for count in counts if isinstance(count, UnreadableValue)), None)
    return unread if unread is not None and not sum(found) else sum(found) if found else None


def _complete(text: str, rows: Sequence[Row]) -> None:
    """Raise UndeterminedError if the program announces a larger message than the largest row."""
    announced = re.search(r"maxBytes (\d+) step: (\d+)\((factor|bytes)\)", text)
    if announced:
        largest, most, step = max(row.size_bytes for row in rows), int(announced[1]), int(announced[2])
        following = largest * step if announced[3] == "factor" else largest + step
        if largest < following <= most:
            raise UndeterminedError(f"nccl-tests: the row of {following} B is missing, which it measures up to {most} B")


def _connections(text: str) -> Iterator[Connection]:
    for line in text.splitlines():
        found = _CHANNEL.search(line)
        if found:
            host, path = found.groups()
            yield Connection(host, _transport(path), "GDRDMA" in path)


def _transport(path: str) -> Transport:
    """Return the transport after `via`: `P2P/CUMEM/read`, `NET/IB/0/GDRDMA`, `NET/AWS Libfabric/3/GDRDMA`."""
    if not path.startswith("NET/"):
        return Transport.SHARED_MEMORY if path.startswith("SHM") else Transport.NVLINK
    network = _network(path.split("/")[1])
    return next((each for each in Transport if each.value == network), Transport.OTHER_NETWORK)


def _network(name: str) -> str:
    """Return the plain name of a network: plugins add a number and their maker.

    >>> _network("AWS Libfabric"), _network("IBext_v8"), _network("Socket")
    ('Libfabric', 'IB', 'Socket')
    """
    known = {"libfabric": Transport.LIBFABRIC, "ib": Transport.INFINIBAND, "socket": Transport.SOCKET}
    plain = name.lower().removeprefix("aws ")
    return next((each.value for key, each in known.items() if plain.startswith(key)), name)
