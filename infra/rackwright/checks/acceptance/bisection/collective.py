"""The collective of a group test as a job, and the figure in its output.

Nodes with GPUs and a fabric run alltoall_perf of nccl-tests: unlike a ring, it loads every path. Where the target simulates its hardware,
tasks exchange data over TCP at a limited rate instead: over the rails of virtual machines, otherwise over the nodes' own network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.bisection.group_test import Figure, GroupTest, SearchSpace
from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.acceptance.parsers import nccl
from rackwright.checks.acceptance.phase import TIMED_OUT, Job, Output, Part, PhaseScope, program
from rackwright.checks.acceptance.phases.nccl import SECONDS, built_folder, gpu_parts
from rackwright.errors import UndeterminedError

_TCP: Final = program("all_to_all.py")
_NCCL: Final = program("collective.py")
_MBIT: Final = 40
"""Rate at which a node of a lab sends. Chosen: four times the limit of `rackwright chaos --mode network_slow`, little work."""
_MIB: Final = 8
"""Data of a node: 1.7 s at that rate, so that the start of the tasks counts little."""
_SECONDS: Final = 30
"""Seconds for the exchange of a group. Chosen: 17 times as long as planned; then the figure is that of the data that arrived."""
_SIZES: Final = ("-b", "4G", "-e", "4G", "-f", "2", "-c", "1")
"""The smallest message that shows the bandwidth of the links (catalog/thresholds.py, MIN_MESSAGE_BYTES), for a short search."""


class Collective(Protocol):
    """A collective on a group of nodes."""

    @property
    def title(self) -> str:
        """Return what runs."""

    @property
    def unit(self) -> str:
        """Return the unit of its figures."""

    @property
    def expected(self) -> float | None:
        """Return the figure of a group that is as planned, over all rails; None if the search measures it."""

    def job(self, test: GroupTest, name: str) -> Job:
        """Return the job of a group test."""

    def figure(self, test: GroupTest, output: Output) -> Figure:
        """Return the figure in the output of the job."""


@dataclass(frozen=True)
class TcpCollective:
    """Exchange of data over TCP, at a limited rate."""

    addresses: Mapping[str, tuple[str, ...]]
    """Addresses of each node, by rail; a single one if it has no rails."""
    rails: tuple[str, ...]
    mbit: float
    simulated: bool = False
    """Whether the data takes another network than the plan's fabric, which is simulated."""
    unit: str = "MB/s"

    @property
    def title(self) -> str:
        """Return what runs."""
        over = f"over {len(self.rails)} rails, each" if self.rails else "over the nodes' network,"
        return f"all-to-all over TCP {over} at most {self.mbit:g} Mbit/s of a node{' (simulated fabric)' if self.simulated else ''}"

    @property
    def expected(self) -> float:
        """Return the limit in MB/s."""
        return self.mbit / 8 * max(len(self.rails), 1)

    def job(self, test: GroupTest, name: str) -> Job:
        """Return the job of a group test."""
        chosen = slice(None) if test.rail is None else slice(place := self.rails.index(test.rail), place + 1)
        addresses = {node: list(self.addresses[node][chosen]) for node in test.nodes}
        words = ("--addresses", json.dumps(addresses), "--mbit", f"{self.mbit:g}", "--mib", str(_MIB), "--seconds", str(_SECONDS))
        return Job(name, test.nodes, _TCP, words, whole_nodes=True, limit_s=_SECONDS + 30)

    def figure(self, test: GroupTest, output: Output) -> Figure:
        """Return what the slowest node sent and received."""
        found = [records.record(output, node) for node in test.nodes]
        return Figure(test, min(float(one["value"]) for one in found), next((str(one["error"]) for one in found if one["error"]), ""))


@dataclass(frozen=True)
class NcclCollective:
    """alltoall_perf of nccl-tests, on all GPUs of the nodes."""

    folder: str
    gpus: int
    """GPUs of a node."""
    title: str = "alltoall_perf of nccl-tests"
    unit: str = "GB/s"
    expected: None = None

    def job(self, test: GroupTest, name: str) -> Job:
        """Return the job of a group test. NCCL uses the adapter of one rail only if its name follows `=` (NCCL_IB_HCA)."""
        words = ("--folder", self.folder, "--seconds", str(SECONDS), f"{Quantity.ALLTOALL.value}_perf", *_SIZES, "-g", "1")
        rail = {"NCCL_IB_HCA": f"={test.rail}"} if test.rail is not None else {}
        return Job(
            name,
            test.nodes,
            _NCCL,
            words,
            tasks_per_node=self.gpus,
            gpus_per_node=self.gpus,
            whole_nodes=True,
            limit_s=SECONDS + 60,
            mpi=True,
            environment={"NCCL_DEBUG": "WARN", **rail},
        )

    def figure(self, test: GroupTest, output: Output) -> Figure:
        """Return what a node sends to others per second: of the bus bandwidth, which counts the GPUs of the same node too, their share.

        Groups of all sizes are compared. nccl-tests divides by the other ranks (doc/PERFORMANCE.md); those of other nodes use the fabric.
        """
        if output.status or not output.tasks:
            return Figure(test, 0.0, output.error or "it printed nothing")
        said = [records.parse(task, output) for task in output.tasks]
        run = nccl.parse("\n".join(f"{one['out']}\n{one['err']}" for one in said))
        failed = next((one for one in said if one["rc"]), None)
        if failed is not None or run.wrong:
            return Figure(test, 0.0, f"{run.wrong} wrong elements" if failed is None else f"alltoall_perf ended with status {failed['rc']}")
        ranks = len(test.nodes) * self.gpus
        return Figure(test, run.bandwidth_gb_s * self.gpus * (ranks - self.gpus) / (ranks - 1))


def choose_collective(scope: PhaseScope) -> tuple[Collective, SearchSpace]:
    """Return the collective of a stack and the nodes that it can measure: those of the largest part that one job can span."""
    if "fabric" in scope.declared.simulated or any(node.get("rail_interfaces") for node in scope.declared.nodes.values()):
        return _tcp(scope, _largest(scope.parts))
    part = _largest(tuple(gpu_parts(scope)))
    collective = NcclCollective(built_folder(scope), scope.gpus(part[0]) if part else 0)
    return collective, _space(scope, part, tuple(scope.declared.nodes[part[0]].get("rails") or ()) if part else ())


def _largest(parts: tuple[Part, ...]) -> tuple[str, ...]:
    return max((part.nodes for part in parts), key=len, default=())


def _tcp(scope: PhaseScope, nodes: tuple[str, ...]) -> tuple[Collective, SearchSpace]:
    records_ = {node: scope.declared.nodes[node] for node in nodes}
    if nodes and all(record.get("rail_interfaces") for record in records_.values()):
        addresses = {node: tuple(rail["address"] for rail in record["rail_interfaces"]) for node, record in records_.items()}
        rails = tuple(records_[nodes[0]]["rails"])
        return TcpCollective(addresses, rails, float((scope.declared.fabric or {})["rate_gbps"]) * 1000), _space(scope, nodes, rails)
    addresses = {node: (str(record["address"]),) for node, record in records_.items()}
    # The simulated fabric carries no data: its leaves do not lie on the path of what is measured.
    return TcpCollective(addresses, (), _MBIT, simulated=True), SearchSpace(nodes)


def _space(scope: PhaseScope, nodes: tuple[str, ...], rails: tuple[str, ...]) -> SearchSpace:
    return SearchSpace(nodes, rails, leaves_of(scope.declared.fabric, nodes, rails))


def leaves_of(fabric: Mapping[str, Any] | None, nodes: tuple[str, ...], rails: tuple[str, ...]) -> dict[str | None, dict[str, str]]:
    """Return the leaf of each node by rail, from the plan's cables; under None that of all its rails.

    >>> leaves_of({"cables": ["w0/mlx5_0:1 leaf-su1-r0:1", "w0/mlx5_1:1 leaf-su1-r1:1"]}, ("w0",), ("mlx5_0", "mlx5_1"))[None]
    {'w0': 'leaf-su1-r0 … leaf-su1-r1'}
    """
    ends = dict(cable.split() for cable in (fabric or {}).get("cables", ()))
    by_port = {port.rpartition(":")[0]: switch.rpartition(":")[0] for port, switch in ends.items()}
    found: dict[str | None, dict[str, str]] = {
        rail: {node: by_port[f"{node}/{rail}"] for node in nodes if f"{node}/{rail}" in by_port} for rail in rails
    }
    found[None] = {}
    for node in nodes:
        own = sorted({found[rail][node] for rail in rails if node in found[rail]})
        if own:
            found[None][node] = own[0] if len(own) == 1 else f"{own[0]} … {own[-1]}"
    return found


def figure_of(collective: Collective, test: GroupTest, output: Output) -> Figure:
    """Return the figure of a job; 0 if its collective failed, None if the job never ran on its nodes."""
    if not output.tasks and output.status in (TIMED_OUT, _CANCELLED):
        return Figure(test, None, output.error or "its job did not start", output.job.name)
    try:
        found = collective.figure(test, output)
    except UndeterminedError as error:
        found = Figure(test, 0.0, str(error))
    return Figure(test, found.value, found.error, output.job.name)


_CANCELLED: Final = 130
"""Exit status of a job that was cancelled before it started (job_submission)."""
