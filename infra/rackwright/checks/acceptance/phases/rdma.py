"""All pairs of nodes, on every rail: bandwidth and latency of RDMA writes; links that are slower than others of their rail are named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rackwright.catalog.reference_values import Quantity
from rackwright.catalog.thresholds import threshold
from rackwright.checks.acceptance.evaluators import records, software_rdma
from rackwright.checks.acceptance.evaluators.pairs import PairResult, pairs, tournament
from rackwright.checks.acceptance.evaluators.speed import impossible
from rackwright.checks.acceptance.parsers.perftest import parse_bandwidth, parse_latency
from rackwright.checks.acceptance.parsers.rping import PINGS
from rackwright.checks.acceptance.phase import Finding, Job, Output, Outputs, Phase, PhaseScope, compared, program, skipped, unknown
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason

_PAIRS: Final = program("rdma_pairs.py")
SECONDS: Final = 3
"""Seconds of one bandwidth test."""
_MESSAGES: Final = 100
"""Messages of 64 KiB of a bandwidth test of software RDMA: half a second at 100 Mbit/s."""
_PATIENCE: Final = 20
"""Seconds until the other node responds. Chosen: the tools start within a second."""
_PATIENCE_EMULATED: Final = 120
"""The same for virtual machines. Chosen: Python and the tools take several seconds each to start on an emulated processor that is busy."""
_LINKS: Final = {"infiniband": "IB", "roce": "Ethernet"}
_CHECKS: Final = {"bandwidth_of_all_pairs": Quantity.RDMA_WRITE, "latency_of_all_pairs": Quantity.RDMA_LATENCY}


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job per round, over all nodes; pairs of a round are disjoint, so no two tests share a NIC."""
    found = []
    for part in scope.parts:
        nodes = tuple(node for node in part.nodes if _rails(scope, node))
        rails = _rails(scope, nodes[0]) if nodes else ()
        for number, pairs_of_round in enumerate(tournament(nodes)):
            words = ("--rails", *rails, "--pairs", json.dumps(pairs_of_round), "--seconds", str(SECONDS), *_software_options(scope, nodes))
            limit = 60 + 2 * len(rails) * (SECONDS + (_PATIENCE_EMULATED if _is_software(scope) else _PATIENCE))
            found.append(Job(f"round-{part.name}-{number}", nodes, _PAIRS, words, whole_nodes=True, limit_s=limit, round=number))
    return found


def _software_options(scope: PhaseScope, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the options for software RDMA, empty for adapters: tests by count, because tests by duration print no peak on slow links."""
    if not _is_software(scope):
        return ()
    addresses = {node: [rail["address"] for rail in scope.declared.nodes[node]["rail_interfaces"]] for node in nodes}
    return (
        *("--count", str(_MESSAGES), "--pings", str(PINGS), "--addresses", json.dumps(addresses)),
        *("--patience", str(_PATIENCE_EMULATED)),
    )


def _is_software(scope: PhaseScope) -> bool:
    return any(node.get("rail_interfaces") for node in scope.declared.nodes.values())


def _rails(scope: PhaseScope, node: str) -> tuple[str, ...]:
    return tuple(scope.declared.nodes[node].get("rails") or ())


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the bandwidth, latency and type of each node's links."""
    fabric: Mapping[str, Any] = scope.declared.fabric or {}
    if _is_software(scope):
        own = [node for node in scope.nodes if _rails(scope, node)]
        yield from software_rdma.evaluate_software_rdma(own, fabric["rate_gbps"], outputs.values())
        return
    yield from (skipped(check, node, SkipReason.NOT_IN_PLAN) for check in software_rdma.CHECKS for node in scope.nodes)
    yield from _evaluate_adapters(scope, fabric, outputs)


def _evaluate_adapters(scope: PhaseScope, fabric: Mapping[str, Any], outputs: Outputs) -> Iterator[Finding]:
    rate = str(fabric.get("rate", "")).lower()
    measured = {quantity: list[PairResult]() for quantity in _CHECKS.values()}
    links: dict[str, set[str]] = {}
    for output in outputs.values():
        for quantity, meeting, link in _meetings(output, rate):
            measured[quantity].append(meeting)
            if link:
                for node in (meeting.one, meeting.other):
                    links.setdefault(node, set()).add(link)
    nodes = [node for node in scope.nodes if _rails(scope, node)]
    for check, quantity in _CHECKS.items():
        yield from pairs(check, quantity, nodes, measured[quantity], threshold(quantity, rate, 2))
    for node in nodes:
        if node in links:
            yield compared("goes_over_the_declared_link", node, sorted(links[node]), [_LINKS.get(str(fabric.get("kind")), "IB")])
        else:
            yield unknown("goes_over_the_declared_link", node, "no test printed its link type")
    for node in scope.nodes:
        if node not in nodes:
            yield from (skipped(check, node, SkipReason.NOT_IN_PLAN) for check in (*_CHECKS, "goes_over_the_declared_link"))


def _meetings(output: Output, rate: str) -> Iterator[tuple[Quantity, PairResult, str]]:
    """Yield all measurements that a round should contain; a pair without output yields a measurement without a value."""
    words = output.job.arguments
    rails = words[1 : words.index("--pairs")]
    for one, other in json.loads(words[words.index("--pairs") + 1]):
        trouble, printed = "", dict[tuple[str, str], Mapping[str, Any]]()
        try:
            printed = {(each["rail"], each["tool"]): each for each in records.record(output, other)["meetings"]}
        except UndeterminedError as error:
            trouble = str(error)
        for rail in rails:
            for quantity, tool in ((Quantity.RDMA_WRITE, "ib_write_bw"), (Quantity.RDMA_LATENCY, "ib_write_lat")):
                found, link = _meeting(quantity, one, other, rail, rate, printed.get((rail, tool)), trouble)
                if found.value is None:
                    found = replace(found, error=f"{found.error}{records.server_failure(output, one, rail, tool)}")
                yield quantity, found, link


def _meeting(
    quantity: Quantity, one: str, other: str, rail: str, rate: str, printed: Mapping[str, Any] | None, trouble: str
) -> tuple[PairResult, str]:
    if printed is None:
        return PairResult(one, other, rail, None, trouble or "it was not tested"), ""
    try:
        value, link = _measured(quantity, f"{printed['out']}\n{printed['err']}")
        wrong = impossible(quantity, value, rate, 2)  # perftest counts cycles of the CPU, whose frequency it may read wrong.
        if wrong:
            raise UndeterminedError(wrong)
        if printed["rc"]:  # The value may be that of the time before the test failed.
            raise UndeterminedError(f"{printed['tool']} ended with status {printed['rc']}")
        return PairResult(one, other, rail, value), link
    except UndeterminedError as error:
        return PairResult(one, other, rail, None, str(error)), ""


def _measured(quantity: Quantity, text: str) -> tuple[float, str]:
    """Return value and link type."""
    if quantity is Quantity.RDMA_WRITE:
        bandwidth = parse_bandwidth(text)
        return bandwidth.average_gbit_s, bandwidth.link
    latency = parse_latency(text)
    return latency.typical_us, latency.link


PHASE: Final = Phase("rdma", "RDMA by pair, rail", evaluate=evaluate, jobs=jobs)
