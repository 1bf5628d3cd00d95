"""What the programs of nccl-tests print, and what NCCL says between their lines when NCCL_DEBUG is INFO."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rackwright.errors import CouldNotTell


class Transport(StrEnum):
    """How two ranks exchange data."""

    NVLINK = "P2P"
    """Peer to peer inside a node; over NVLink or PCIe, NCCL does not say which."""
    SHARED_MEMORY = "SHM"
    INFINIBAND = "IB"
    """Also RoCE: NCCL calls both IB."""
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
    busbw_gb_s: float
    wrong: int | None
    """Wrong elements, both ways; None where results were not checked."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One channel between two ranks."""

    host: str
    """That said so, as it names itself."""
    transport: Transport
    direct: bool
    """Whether the NIC reads and writes GPU memory itself (GDRDMA)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program of nccl-tests."""

    devices: tuple[Device, ...]
    rows: tuple[Row, ...]
    out_of_bounds_ok: bool
    average_busbw_gb_s: float
    connections: tuple[Connection, ...]
    networks: frozenset[str]
    """What NCCL says it uses as network, `IB`, `Socket`, `Libfabric`; empty without NCCL_DEBUG=INFO."""
    version: str | None
    nvls: bool | None
    """Whether NVLink SHARP is available on all GPUs; None where nothing was said."""

    @property
    def largest(self) -> Row:
        """The row of the largest message."""
        return max(self.rows, key=lambda row: row.size_bytes)

    @property
    def wrong(self) -> int | None:
        """Wrong elements of all sizes; None where any size was not checked."""
        counts = [row.wrong for row in self.rows]
        return None if None in counts else sum(count or 0 for count in counts)


_DEVICE: Final = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+(\d+) \[[^]]+\] (.+)")
_NUMBER: Final = r"(\d+(?:\.\d+)?(?:e\+\d+)?)"
_ROW: Final = re.compile(
    rf"(\d+)\s+\d+\s+\S+\s+\S+\s+-?\d+\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+(N/A|\d+)\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+(N/A|\d+)"
)
_LABEL: Final = re.compile(r"^\s*(?:\[\d+\]|\d+:)\s")
"""What mpirun and `srun --label` put before a line."""
_CHANNEL: Final = re.compile(
    r"^(?:\[[^]]*\] )?(\S+?):\d+:\d+ \[\d+\] NCCL INFO (?:Channel|Ring) [\d/]+ : \d+\S* -> \d+\S* (?:\[(?:send|receive)\] )?via (\S+.*)$"
)
_NETWORK: Final = re.compile(r"NCCL INFO Using network (.+?)\s*$")
_BOUNDS: Final = re.compile(r"# Out of bounds values : (\d+) (OK|FAILED)")
_AVERAGE: Final = re.compile(r"# Avg bus bandwidth\s+: (\d+(?:\.\d+)?)\s")
_TROUBLE: Final = re.compile(
    r"(NCCL WARN .+|Test NCCL failure .+|.*Test CUDA failure .+|.*[Cc]ommand not found.*|Killed|slurmstepd: error: .+|srun: error: .+)"
)


def parse(text: str) -> Run:
    """The whole output of one run. CouldNotTell where it never came to its end."""
    rows = tuple(_rows(text))
    bounds, average = _BOUNDS.search(text), _AVERAGE.search(text)
    if not rows or bounds is None or average is None:
        trouble = _TROUBLE.findall(text)
        raise CouldNotTell(f"nccl-tests did not come to its end: {trouble[0].strip() if trouble else f'{len(rows)} sizes, no summary'}")
    versions = re.findall(r"NCCL version (\d[\d.]*\d)", text)
    nvls = re.findall(r"NVLS multicast support is (not )?available", text)
    return Run(
        devices=tuple(Device(int(rank), host, int(index), product.strip()) for rank, host, index, product in _DEVICE.findall(text)),
        rows=rows,
        out_of_bounds_ok=bounds.group(2) == "OK",
        average_busbw_gb_s=float(average.group(1)),
        connections=tuple(_connections(text)),
        networks=frozenset(_network(found) for found in re.findall(_NETWORK.pattern, text, re.MULTILINE)),
        version=versions[0] if versions else None,
        nvls=not any(nvls) if nvls else None,
    )


def _rows(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        found = _ROW.fullmatch(_LABEL.sub("", line).strip())
        if found:
            size, _, _, out, out_wrong, _, _, inside, inside_wrong = found.groups()
            counts = [int(wrong) for wrong in (out_wrong, inside_wrong) if wrong != "N/A"]
            yield Row(int(size), max(float(out), float(inside)), sum(counts) if counts else None)


def _connections(text: str) -> Iterator[Connection]:
    for line in text.splitlines():
        found = _CHANNEL.search(line)
        if found:
            host, way = found.groups()
            yield Connection(host, _transport(way), "GDRDMA" in way)


def _transport(way: str) -> Transport:
    """What follows `via`: `P2P/CUMEM/read`, `NET/IB/0/GDRDMA`, `NET/AWS Libfabric/3/GDRDMA`."""
    if not way.startswith("NET/"):
        return Transport.SHARED_MEMORY if way.startswith("SHM") else Transport.NVLINK
    network = _network(way.split("/")[1])
    return next((each for each in Transport if each.value == network), Transport.OTHER_NETWORK)


def _network(name: str) -> str:
    """The plain name of a network: plugins number themselves and name their maker.

    >>> _network("AWS Libfabric"), _network("IBext_v8"), _network("Socket")
    ('Libfabric', 'IB', 'Socket')
    """
    known = {"libfabric": Transport.LIBFABRIC, "ib": Transport.INFINIBAND, "socket": Transport.SOCKET}
    plain = name.lower().removeprefix("aws ")
    return next((each.value for key, each in known.items() if plain.startswith(key)), name)
