"""Verdicts on a run of nccl-tests: right results, the declared network, GPUDirect, bandwidth. Bandwidth alone proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rackwright.catalog.reference_values import Quantity
from rackwright.catalog.thresholds import MIN_MESSAGE_BYTES, threshold
from rackwright.checks.acceptance.evaluators.speed import speed
from rackwright.checks.acceptance.parsers.nccl import Connection, Run, Transport
from rackwright.checks.acceptance.phase import Finding, compared, unknown
from rackwright.report.verdict import Verdict

RINGS = frozenset({Quantity.ALL_REDUCE, Quantity.ALL_GATHER, Quantity.REDUCE_SCATTER})
"""Collectives whose bus bandwidth over several nodes is that of all NICs of a node; alltoall sends each rank's share over its own NIC."""
NETWORKS = frozenset({Transport.INFINIBAND, Transport.LIBFABRIC, Transport.SOCKET, Transport.OTHER_NETWORK})


@dataclass(frozen=True, slots=True)
class ExpectedTopology:
    """The plan's values for the nodes of a run."""

    nodes: tuple[str, ...]
    gpus_per_node: int
    gpu: str
    """Model, as the catalogue names it."""
    network: Transport | None
    """InfiniBand or libfabric (EFA) if the plan declares one; None if nodes have only sockets."""
    link: str = ""
    """Speed of a NIC, as the catalogue names it: `ndr`."""
    nics: int = 0
    instance: str = ""
    nvls: bool = False
    """Whether the GPU and its switch have NVLink SHARP."""
    rails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """NICs of the fabric by node."""

    @property
    def ranks(self) -> int:
        """GPUs of all nodes."""
        return len(self.nodes) * self.gpus_per_node


def results(check: str, run: Run, wanted: ExpectedTopology) -> list[Finding]:
    """Verify that every rank took part and every element was right. A run without checking is unknown."""
    if len(run.devices) != wanted.ranks:
        reason = f"ran with {len(run.devices)} ranks, not {wanted.ranks}: was nccl-tests built with MPI, and does srun speak its PMI?"
        return [unknown(check, node, reason) for node in wanted.nodes]
    if run.wrong is None:
        return [unknown(check, node, "results were not checked (-c 0)") for node in wanted.nodes]
    found = f"{run.wrong} wrong elements" + ("" if run.out_of_bounds_ok else ", out of bounds")
    return [compared(check, node, found, "0 wrong elements") for node in wanted.nodes]


def transport(check: str, run: Run, wanted: ExpectedTopology) -> list[Finding]:
    """Verify that data between nodes uses the declared network, whatever the bandwidth, and peer to peer inside a node."""
    if not run.connections:
        return [unknown(check, node, "NCCL printed no connections: NCCL_DEBUG was not INFO") for node in wanted.nodes]
    return [_transport(check, node, _connections_of(run, node), wanted) for node in wanted.nodes]


def _transport(check: str, node: str, connections: list[Connection], wanted: ExpectedTopology) -> Finding:
    if not connections:
        return unknown(check, node, "no rank on this node printed its connections")
    inside, between = {each.transport for each in connections} - NETWORKS, {each.transport for each in connections} & NETWORKS
    peer_to_peer = Transport.NVLINK.value if wanted.gpus_per_node > 1 else ""
    planned = sorted(filter(None, (peer_to_peer, _declared(wanted).value if len(wanted.nodes) > 1 else "")))
    return compared(check, node, sorted(each.value for each in inside | between), planned)


def _declared(wanted: ExpectedTopology) -> Transport:
    return wanted.network or Transport.SOCKET


def gpudirect(check: str, run: Run, wanted: ExpectedTopology) -> list[Finding]:
    """Verify that NICs access GPU memory directly; otherwise every byte passes through main memory."""
    return [_gpudirect(check, node, _connections_of(run, node)) for node in wanted.nodes]


def _gpudirect(check: str, node: str, connections: list[Connection]) -> Finding:
    over = [each for each in connections if each.transport in (Transport.INFINIBAND, Transport.LIBFABRIC)]
    if not over:
        return unknown(check, node, "no connection over InfiniBand or EFA was seen")
    direct = sum(each.direct for each in over)
    return compared(check, node, f"{direct} of {len(over)} connections", f"{len(over)} of {len(over)} connections")


def bandwidth(
    check: str, quantity: Quantity, run: Run, wanted: ExpectedTopology, baseline: Mapping[str, float] | None = None
) -> list[Finding]:
    """Compare the bus bandwidth of the largest message, per node of the run. All nodes share one number: the pairs find a slow node."""
    largest = run.largest
    if largest.size_bytes < MIN_MESSAGE_BYTES:
        return [
            unknown(check, node, f"the largest message had {largest.size_bytes} bytes: too small to show what the links carry")
            for node in wanted.nodes
        ]
    count = len(wanted.nodes)
    hardware = wanted.gpu if count == 1 else wanted.instance
    values = dict.fromkeys(wanted.nodes, run.bandwidth_gb_s)
    limit = threshold(quantity, hardware, count)
    if limit is None and count > 1 and wanted.nics and quantity in RINGS and threshold(Quantity.NIC_BUSBW, wanted.link, count):
        return _per_nic(check, quantity, run, wanted, baseline)
    found = speed(
        check,
        quantity,
        values,
        hardware=dict.fromkeys(wanted.nodes, hardware),
        nodes=count,
        baseline=baseline,
        wanted=limit,
        name=quantity.value,
    )
    return [_with_hint(each, run, wanted) for each in found]


def _per_nic(check: str, quantity: Quantity, run: Run, wanted: ExpectedTopology, baseline: Mapping[str, float] | None) -> list[Finding]:
    """Compare the bandwidth per NIC of a node, if only a figure per NIC is known."""
    values = dict.fromkeys(wanted.nodes, run.bandwidth_gb_s / wanted.nics)
    before = {node: value / wanted.nics for node, value in (baseline or {}).items()}
    limit = threshold(Quantity.NIC_BUSBW, wanted.link, len(wanted.nodes))
    found = speed(
        check,
        Quantity.NIC_BUSBW,
        values,
        hardware=dict.fromkeys(wanted.nodes, wanted.link),
        nodes=len(wanted.nodes),
        baseline=before,
        wanted=limit,
    )
    whole = {
        node: replace(found[0].measurements[0], name=quantity.value, value=run.bandwidth_gb_s) if found[0].measurements else None
        for node in values
    }
    return [replace(each, measurements=(figure,) if (figure := whole[each.node]) else ()) for each in found]


def _with_hint(finding: Finding, run: Run, wanted: ExpectedTopology) -> Finding:
    if finding.verdict is Verdict.FAILED and wanted.nvls and run.nvls is False:
        return replace(finding, reason=f"{finding.reason}; NVLink SHARP is not available: check the fabric manager")
    return finding


def _connections_of(run: Run, node: str) -> list[Connection]:
    """Return the connections that ranks on a node report; hosts may use their name with the domain."""
    return [each for each in run.connections if each.host.split(".")[0] == node]
