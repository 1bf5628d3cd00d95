"""Software RDMA between virtual machines: each pair moves data at the rate of its links, and connects through the connection manager."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.acceptance.parsers.perftest import parse_bandwidth
from rackwright.checks.acceptance.parsers.rping import PINGS, parse_rping
from rackwright.checks.acceptance.phase import Finding, Measurement, Output, unknown
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict

DATA: Final = "software_rdma_carries_data"
CONNECTIONS: Final = "rdma_cm_connects"
CHECKS: Final = (DATA, CONNECTIONS)
_SHARE: Final = 0.5
"""Least part of a link's rate. Chosen: paced links of emulated machines were seen to carry 94 % of 100 Mbit/s and 98 % of 50, and a link
whose frames are lost carries a fraction, since senders repeat everything after a gap."""


@dataclass(frozen=True, slots=True)
class _Result:
    one: str
    other: str
    rail: str
    value: float | None
    error: str = ""


def evaluate_software_rdma(nodes: Iterable[str], rate_gbps: float, outputs: Iterable[Output]) -> Iterator[Finding]:
    """Yield bandwidth and connections of each node: the slowest pair counts, and a pair without a result is unknown."""
    tools = {DATA: ("ib_write_bw", _mbit_s), CONNECTIONS: ("rping", _pings)}
    least = {DATA: rate_gbps * 1000 * _SHARE, CONNECTIONS: float(PINGS)}
    units = {DATA: "Mbit/s", CONNECTIONS: "round trips"}
    outputs = tuple(outputs)
    for check, (tool, read) in tools.items():
        results = [result for output in outputs for result in _results(output, tool, read)]
        for node in nodes:
            yield _judged(check, node, [one for one in results if node in (one.one, one.other)], least[check], units[check])


def _judged(check: str, node: str, own: list[_Result], least: float, unit: str) -> Finding:
    silent = [one for one in own if one.value is None]
    if silent or not own:
        reason = f"{len(silent)} of {len(own)} pairs gave no result: {_name(silent[0], node)}: {silent[0].error}" if silent else ""
        return unknown(check, node, reason or "it was not paired with another node")
    slowest = min(own, key=lambda one: one.value or 0.0)
    value = slowest.value or 0.0
    reason = f"{_name(slowest, node)}: {value:.4g} {unit}, expected at least {least:.4g}" if value < least else ""
    measured = tuple(Measurement(f"{check}/{one.rail}/{one.other if one.one == node else one.one}", one.value or 0.0, unit) for one in own)
    verdict = Verdict.FAILED if reason else Verdict.PASSED
    return Finding(check, node, verdict, reason, f"at least {least:.4g} {unit}", f"least {value:.4g} {unit}", measured)


def _results(output: Output, tool: str, read: Callable[[str], float]) -> Iterator[_Result]:
    """Yield the results of every pair and rail of a round."""
    words = output.job.arguments
    rails = words[words.index("--rails") + 1 : words.index("--pairs")]
    for one, other in json.loads(words[words.index("--pairs") + 1]):
        trouble, printed = "it was not tested", dict[str, Mapping[str, Any]]()
        try:
            printed = {each["rail"]: each for each in records.record(output, other)["meetings"] if each["tool"] == tool}
        except UndeterminedError as error:
            trouble = str(error)
        for rail in rails:
            found = _result(one, other, rail, printed.get(rail), read, trouble)
            known = "" if found.error == "" else records.server_failure(output, one, rail, tool)
            yield replace(found, error=f"{found.error}{known}")


def _result(one: str, other: str, rail: str, printed: Mapping[str, Any] | None, read: Callable[[str], float], trouble: str) -> _Result:
    if printed is None:
        return _Result(one, other, rail, None, trouble)
    try:
        value = read(f"{printed['out']}\n{printed['err']}")
    except UndeterminedError as error:
        return _Result(one, other, rail, None, str(error))
    if printed["rc"]:
        return _Result(one, other, rail, None, f"{printed['tool']} ended with status {printed['rc']}")
    return _Result(one, other, rail, value)


def _mbit_s(text: str) -> float:
    return parse_bandwidth(text).average_gbit_s * 1000


def _pings(text: str) -> float:
    completed = parse_rping(text)
    return float(completed)


def _name(result: _Result, node: str) -> str:
    return f"{result.other if result.one == node else result.one} on {result.rail}"
