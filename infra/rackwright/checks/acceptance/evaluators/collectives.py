"""Verdicts on a run of nccl-tests: right results, the declared network, GPUDirect, bandwidth. Bandwidth alone proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rackwright.catalog.reference_values import Quantity
from rackwright.catalog.thresholds import MIN_MESSAGE_BYTES, threshold
from rackwright.checks.acceptance.evaluators.speed import speed
from rackwright.checks.acceptance.parsers.nccl import Run
from rackwright.checks.acceptance.parsers.nccl_log import Connection, Transport
from rackwright.checks.acceptance.phase import Finding, compared, skipped, unknown
from rackwright.report.verdict import SkipReason, Verdict

RINGS = frozenset({Quantity.ALL_REDUCE, Quantity.ALL_GATHER, Quantity.REDUCE_SCATTER})
"""Collectives whose bus bandwidth over several nodes is that of all NICs of a node; alltoall sends each rank's share over its own NIC."""
NETWORKS = frozenset({Transport.INFINIBAND, Transport.LIBFABRIC, Transport.SOCKET, Transport.OTHER_NETWORK})
PEER_TO_PEER = frozenset({Transport.NVLINK, Transport.MULTI_NODE_NVLINK})
_GPUS = 8
"""GPUs of the nodes on which the figures inside a node were measured (figures.csv); fewer reach another bus bandwidth."""
_EFA = frozenset({"efa", "efa-direct"})
"""Providers of libfabric that use EFA; with others, aws-ofi-nccl sends over TCP and is called Libfabric all the same."""


class PeerLinks(StrEnum):
    """Links between the GPUs of a node."""

    ALL = "all"
    """NVLink between all GPUs: data never passes through main memory."""
    SOME = "some"
    """NVLink between some GPUs (cube mesh of P100 and V100): the rest exchanges data through main memory."""
    NONE = "none"
    """PCIe only: NCCL chooses main memory where GPUs are not below one PCIe switch, or the driver forbids peer access (GeForce)."""


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
    links: PeerLinks = PeerLinks.ALL
    nvlink_domain: bool = False
    """Whether NVLink can connect GPUs of several nodes (GB200 and GB300 NVL72)."""
    gpudirect: bool = True
    """Whether NICs can access the memory of these GPUs."""
    gpudirect_sends: bool = True
    """Whether NCCL lets NICs read GPU memory, too: before Ampere only with NVLink (NCCL, src/graph/paths.cc, ncclTopoCheckGdr)."""

    @property
    def ranks(self) -> int:
        """GPUs of all nodes."""
        return len(self.nodes) * self.gpus_per_node


def results(check: str, run: Run, wanted: ExpectedTopology) -> list[Finding]:
    """Verify that every rank took part and every element was right. A run without checking is unknown."""
    if run.ranks != wanted.ranks:
        reason = f"ran with {run.ranks} ranks, not {wanted.ranks}: was nccl-tests built with MPI, and does srun speak its PMI?"
        return [unknown(check, node, reason) for node in wanted.nodes]
    if run.groups > 1:
        reason = f"ran as {run.groups} separate groups of ranks: NCCL_TESTS_SPLIT or NCCL_TESTS_SPLIT_MASK is set in the user's environment"
        return [unknown(check, node, reason) for node in wanted.nodes]
    if not run.out_of_bounds_ok:
        return [compared(check, node, "values out of bounds", "0 wrong elements") for node in wanted.nodes]
    if run.wrong is None:
        return [unknown(check, node, "results were not checked (-c 0)") for node in wanted.nodes]
    return [compared(check, node, f"{run.wrong} wrong elements", "0 wrong elements") for node in wanted.nodes]


def transport(check: str, run: Run, wanted: ExpectedTopology) -> list[Finding]:
    """Verify that data between nodes uses the declared network, whatever the bandwidth, and peer to peer inside a node."""
    if not run.connections:
        return [
            unknown(check, node, "NCCL printed no connections: NCCL_DEBUG was not INFO, or NCCL_DEBUG_FILE is set") for node in wanted.nodes
        ]
    return [_transport(check, node, run, wanted) for node in wanted.nodes]


def _transport(check: str, node: str, run: Run, wanted: ExpectedTopology) -> Finding:
    connections = _connections_of(run, node, wanted)
    if not connections:
        return unknown(check, node, "no rank on this node printed its connections")
    strange = sorted({each.path for each in connections if each.transport is Transport.UNKNOWN})
    if strange:
        return unknown(check, node, f'NCCL printed a path that is not known: "{strange[0]}"')
    found = {each.transport for each in connections}
    between, inside = found & (NETWORKS | {Transport.MULTI_NODE_NVLINK}), found - NETWORKS
    holds = (len(wanted.nodes) == 1 or _between(between, wanted)) and (wanted.gpus_per_node == 1 or _inside(inside, wanted))
    holds = holds and (len(wanted.nodes) > 1 or not found & NETWORKS)
    provider = _other_providers(run, node, wanted)
    words = ", ".join(sorted(each.value for each in found)) + (f" over {provider}" if provider else "")
    return compared(check, node, words, _planned(wanted), holds=holds and not provider)


def _between(found: set[Transport], wanted: ExpectedTopology) -> bool:
    """Return whether data between nodes uses the declared network, or NVLink in a domain of several nodes."""
    allowed = {_declared(wanted)} | ({Transport.MULTI_NODE_NVLINK} if wanted.nvlink_domain else set())
    return bool(found) and found <= allowed


def _inside(found: set[Transport], wanted: ExpectedTopology) -> bool:
    """Return whether data inside a node uses the links between its GPUs."""
    if wanted.links is PeerLinks.NONE:
        return bool(found)
    return bool(found & PEER_TO_PEER) and (wanted.links is PeerLinks.SOME or Transport.SHARED_MEMORY not in found)


def _planned(wanted: ExpectedTopology) -> str:
    peers = {PeerLinks.ALL: "P2P", PeerLinks.SOME: "P2P (and SHM)", PeerLinks.NONE: "P2P or SHM"}[wanted.links]
    network = _declared(wanted).value + (" or MNNVL" if wanted.nvlink_domain else "")
    return ", ".join(filter(None, (network if len(wanted.nodes) > 1 else "", peers if wanted.gpus_per_node > 1 else "")))


def _other_providers(run: Run, node: str, wanted: ExpectedTopology) -> str:
    """Return the providers of libfabric that are not EFA, if EFA is declared."""
    if wanted.network is not Transport.LIBFABRIC:
        return ""
    return ", ".join(sorted(provider for host, provider in run.providers if _is_host(host, node) and provider not in _EFA))


def _declared(wanted: ExpectedTopology) -> Transport:
    return wanted.network or Transport.SOCKET


def gpudirect(check: str, run: Run, wanted: ExpectedTopology) -> list[Finding]:
    """Verify that NICs access GPU memory directly; otherwise every byte passes through main memory."""
    return [_gpudirect(check, node, run, wanted) for node in wanted.nodes]


def _gpudirect(check: str, node: str, run: Run, wanted: ExpectedTopology) -> Finding:
    connections = _connections_of(run, node, wanted)
    over = [each for each in connections if each.transport in (Transport.INFINIBAND, Transport.LIBFABRIC)]
    over = [each for each in over if wanted.gpudirect_sends or not each.sends] or over
    if not over and any(each.transport is Transport.MULTI_NODE_NVLINK for each in connections):
        return skipped(check, node, SkipReason.NOT_IN_PLAN)  # NVLink carried all data: no NIC took part.
    if not over:
        return unknown(check, node, "no connection over InfiniBand or EFA was seen")
    direct = sum(each.direct for each in over)
    if direct < len(over) and not wanted.gpudirect:
        return skipped(check, node, SkipReason.NOT_IN_PLAN)
    return compared(check, node, f"{direct} of {len(over)} connections", f"{len(over)} of {len(over)} connections")


def bandwidth(
    check: str, quantity: Quantity, run: Run, wanted: ExpectedTopology, baseline: Mapping[str, float] | None = None
) -> list[Finding]:
    """Compare the bus bandwidth of the largest message, per node of the run. All nodes share one number: the pairs find a slow node."""
    largest = run.largest
    reduced = run.announced is not None and run.announced.reduced
    if largest.size_bytes < MIN_MESSAGE_BYTES and not reduced:
        return [
            unknown(check, node, f"the largest message had {largest.size_bytes} bytes: too small to show what the links carry")
            for node in wanted.nodes
        ]
    count = len(wanted.nodes)
    hardware = wanted.instance if count > 1 else wanted.gpu if wanted.gpus_per_node == _GPUS else f"{wanted.gpus_per_node} {wanted.gpu}"
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
    nics = min(wanted.nics, wanted.gpus_per_node)  # NCCL may leave the others to the GPUs that this node does not have.
    values = dict.fromkeys(wanted.nodes, run.bandwidth_gb_s / nics)
    before = {node: value / nics for node, value in (baseline or {}).items()}
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


def _connections_of(run: Run, node: str, wanted: ExpectedTopology) -> list[Connection]:
    """Return the connections that ranks on a node report. Only one node can report those of a run on one node (a pod has its own name)."""
    return [each for each in run.connections if len(wanted.nodes) == 1 or _is_host(each.host, node)]


def _is_host(host: str, node: str) -> bool:
    """Return whether a host is a node; hosts may use their name with the domain."""
    return host.split(".")[0].lower() == node.split(".")[0].lower()
