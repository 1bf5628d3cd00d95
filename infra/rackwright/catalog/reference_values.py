"""Speed of hardware: specified figures, measured figures, and other sites' thresholds. Each figure has its source."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from rackwright.catalog import rows


class Dimension(StrEnum):
    """Dimension of a unit."""

    BANDWIDTH = "bandwidth"
    COMPUTE = "compute"
    TIME = "time"
    RATE = "rate"
    SHARE = "share"


class Unit(StrEnum):
    """Units as printed by tools. A byte has eight bits, a kilo is a thousand."""

    TB_S = "TB/s"
    GB_S = "GB/s"
    MB_S = "MB/s"
    GBIT_S = "Gb/s"
    TFLOPS = "TFLOPS"
    GFLOPS = "GFLOPS"
    MICROSECONDS = "µs"
    MILLISECONDS = "ms"
    PER_SECOND = "1/s"
    TOKENS = "tokens/s"
    SHARE = "share"

    @property
    def dimension(self) -> Dimension:
        """Return the dimension of the unit."""
        return _SCALE[self][0]

    def to(self, other: Unit, value: float) -> float:
        """Return the value in another unit; raise ValueError if the dimensions differ.

        >>> Unit.GBIT_S.to(Unit.GB_S, 400)
        50.0
        """
        if self.dimension is not other.dimension:
            raise ValueError(f"{self.value} is no {other.dimension.value}")
        return value * _SCALE[self][1] / _SCALE[other][1]


_SCALE: Final[Mapping[Unit, tuple[Dimension, float]]] = {
    Unit.TB_S: (Dimension.BANDWIDTH, 1e12),
    Unit.GB_S: (Dimension.BANDWIDTH, 1e9),
    Unit.MB_S: (Dimension.BANDWIDTH, 1e6),
    Unit.GBIT_S: (Dimension.BANDWIDTH, 1e9 / 8),
    Unit.TFLOPS: (Dimension.COMPUTE, 1e12),
    Unit.GFLOPS: (Dimension.COMPUTE, 1e9),
    Unit.MICROSECONDS: (Dimension.TIME, 1e-6),
    Unit.MILLISECONDS: (Dimension.TIME, 1e-3),
    Unit.PER_SECOND: (Dimension.RATE, 1),
    Unit.TOKENS: (Dimension.RATE, 1),
    Unit.SHARE: (Dimension.SHARE, 1),
}


class Quantity(StrEnum):
    """Measured quantity. Bus bandwidth as nccl-tests defines it (doc/PERFORMANCE.md): algorithm bandwidth × 2(n-1)/n for all-reduce."""

    MATMUL_BF16 = "matmul-bf16"
    HBM_COPY = "hbm-copy"
    """A copy inside the memory of one GPU; read and written bytes are counted."""
    HBM_DCGM = "hbm-dcgm"
    """As measured by dcgmproftester and the memory_bandwidth plugin of dcgmi diag; lower than a copy on the same GPU."""
    HOST_TO_DEVICE = "host-to-device"
    DEVICE_TO_HOST = "device-to-host"
    PEER_COPY = "peer-copy"
    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALLTOALL = "alltoall"
    NIC_BUSBW = "busbw-per-nic"
    """Bus bandwidth of a collective over the network, divided by the NICs of a node."""
    RDMA_WRITE = "rdma-write"
    RDMA_LATENCY = "rdma-latency"
    TRAINING_DDP = "training-ddp"
    TRAINING_FSDP = "training-fsdp"
    SCALING = "scaling"
    """Work per second on n GPUs, divided by n times the work on one GPU, or on the smallest number that was run."""
    STORAGE_WRITE = "storage-write"
    STORAGE_READ = "storage-read"
    STORAGE_METADATA = "storage-metadata"
    STORAGE_SMALL_FILES = "storage-small-files"
    STORAGE_FSYNC = "storage-fsync"
    STORAGE_RANDOM_WRITE = "storage-random-write"
    """Operations of 4 KiB per second on the shared file system, from one node while all nodes work (fio)."""
    STORAGE_RANDOM_READ = "storage-random-read"
    SCRATCH_RANDOM_WRITE = "scratch-random-write"
    """Operations of 4 KiB per second on the scratch of a node (fio)."""
    SCRATCH_RANDOM_READ = "scratch-random-read"
    MEMORY_COPY = "memory-copy"
    """A copy in the main memory of a node by all its CPUs; read and written bytes are counted, as in STREAM Copy."""
    MEMORY_TRIAD = "memory-triad"
    """STREAM Triad of all cores of a node at once (HPCC, StarSTREAM)."""
    HPL = "hpl"
    """LINPACK on all cores of a node (HPCC, with the BLAS of the distribution)."""

    @property
    def unit(self) -> Unit:
        """Return the unit in which the quantity is reported."""
        return _UNITS.get(self, Unit.GB_S)

    @property
    def lower_is_better(self) -> bool:
        """Return whether a threshold is an upper limit."""
        return self.unit.dimension is Dimension.TIME


_UNITS: Final[Mapping[Quantity, Unit]] = {
    Quantity.MATMUL_BF16: Unit.TFLOPS,
    Quantity.RDMA_WRITE: Unit.GBIT_S,
    Quantity.RDMA_LATENCY: Unit.MICROSECONDS,
    Quantity.TRAINING_DDP: Unit.TOKENS,
    Quantity.TRAINING_FSDP: Unit.TOKENS,
    Quantity.SCALING: Unit.SHARE,
    Quantity.STORAGE_WRITE: Unit.MB_S,
    Quantity.STORAGE_READ: Unit.MB_S,
    Quantity.STORAGE_METADATA: Unit.PER_SECOND,
    Quantity.STORAGE_SMALL_FILES: Unit.PER_SECOND,
    Quantity.STORAGE_FSYNC: Unit.MILLISECONDS,
    Quantity.STORAGE_RANDOM_WRITE: Unit.PER_SECOND,
    Quantity.STORAGE_RANDOM_READ: Unit.PER_SECOND,
    Quantity.SCRATCH_RANDOM_WRITE: Unit.PER_SECOND,
    Quantity.SCRATCH_RANDOM_READ: Unit.PER_SECOND,
    Quantity.HPL: Unit.GFLOPS,
}


class Kind(StrEnum):
    """Origin of a figure."""

    SPEC = "spec"
    """Upper limit of the hardware."""
    MEASURED = "measured"
    """Measured on a machine without known faults."""
    GATE = "gate"
    """Acceptance threshold of an operator of such machines."""


@dataclass(frozen=True, slots=True)
class NodeRange:
    """Numbers of nodes that a figure applies to."""

    minimum: int = 0
    maximum: int | None = None
    """None: any number from `least` up."""

    def __contains__(self, nodes: int) -> bool:
        return self.minimum <= nodes and (self.maximum is None or nodes <= self.maximum)

    @property
    def several(self) -> bool:
        """Return whether the network between nodes is part of the measurement."""
        return self.minimum > 1

    @classmethod
    def parse(cls, text: str) -> NodeRange:
        """Parse a range: `2` is two, `3+` three or more, an empty text any number.

        >>> 64 in NodeRange.parse("3+"), 2 in NodeRange.parse("3+"), 1 in NodeRange.parse("")
        (True, False, True)
        """
        if not text:
            return cls()
        least = int(text.removesuffix("+"))
        return cls(least, None if text.endswith("+") else least)


@dataclass(frozen=True, slots=True)
class ReferenceValue:
    """One figure of one piece of hardware."""

    id: str
    quantity: Quantity
    hardware: str
    """GPU model, instance type or link speed; `*` for any."""
    nodes: NodeRange
    transport: str
    direction: str
    message_bytes: int | None
    unit: Unit
    value: float
    kind: Kind
    source: str
    date: datetime.date

    @property
    def reported(self) -> float:
        """Return the value in the unit in which the quantity is reported."""
        return self.unit.to(self.quantity.unit, self.value)


@cache
def reference_values() -> Mapping[str, ReferenceValue]:
    """Return all figures by id."""
    return {row["id"]: parse_figure(row) for row in rows("figures")}


def parse_figure(row: Mapping[str, str]) -> ReferenceValue:
    """Parse a row of the file, or of another one with the same columns. Raise ValueError for an invalid value and without a source."""
    return ReferenceValue(
        id=row["id"],
        quantity=Quantity(row["quantity"]),
        hardware=row["hardware"],
        nodes=NodeRange.parse(row["nodes"]),
        transport=row["transport"],
        direction=row["direction"],
        message_bytes=int(row["message_bytes"]) if row["message_bytes"] else None,
        unit=Unit(row["unit"]),
        value=float(row["value"]),
        kind=Kind(row["kind"]),
        source=required_cell(row, "source"),
        date=datetime.date.fromisoformat(row["date"]),
    )


def required_cell(row: Mapping[str, str], column: str) -> str:
    """Return the value of a column that must not be empty."""
    if not row[column].strip():
        raise ValueError(f"{row['id']}: {column} is empty")
    return row[column]
