"""Jobs can use the fabric: every adapter of the plan, its port active, its link up, with the declared speed and link layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from rackwright.checks.acceptance.phase import Finding, Job, Output, Outputs, Phase, PhaseScope, compared, guarded, skipped
from rackwright.checks.acceptance.smoke import answer, probe_job
from rackwright.checks.cluster.probes.fabric import PORTS, Port
from rackwright.report.verdict import SkipReason

_CHECKS: Final = ("adapters_match_plan", "ports_are_active", "links_are_up", "rate_matches_plan", "link_layer_matches_plan")


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return one job over all nodes of a part that have rails. Adapters are only read: no traffic is disturbed."""
    found = []
    for part in scope.parts:
        nodes = tuple(node for node in part.nodes if _rails(scope, node))
        if nodes:
            found.append(probe_job(f"ibstat-{part.name}", nodes, PORTS))
    return found


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings for the planned ports of each node; other ports, for example of a storage network, are not part of the fabric."""
    for output in outputs.values():
        for node in output.job.nodes:
            yield from (guarded(check, node, partial(_judged, check, scope, output, node)) for check in _CHECKS)
    for node in scope.nodes:
        if not _rails(scope, node):
            yield from (skipped(check, node, SkipReason.NOT_IN_PLAN) for check in _CHECKS)


def _judged(check: str, scope: PhaseScope, output: Output, node: str) -> Finding:
    rails, fabric = _rails(scope, node), scope.declared.fabric or {}
    ports = {port.adapter: port for port in answer(output, node, PORTS)}
    own = {name: ports[name] for name in rails if name in ports}
    if check == "adapters_match_plan":
        return compared(check, node, sorted(own), sorted(rails))
    planned = _planned(fabric)[check]
    return compared(check, node, {name: _port_value(check, port) for name, port in own.items()}, dict.fromkeys(rails, planned))


def _planned(fabric: Any) -> dict[str, str]:
    return {
        "ports_are_active": "Active",
        "links_are_up": "LinkUp",
        "rate_matches_plan": f"{fabric.get('rate_gbps')} Gb/s",
        "link_layer_matches_plan": str(fabric.get("link_layer")),
    }


def _port_value(check: str, port: Port) -> Any:  # a text, or an UnreadableValue
    return {
        "ports_are_active": port.state,
        "links_are_up": port.physical,
        "rate_matches_plan": port.rate,
        "link_layer_matches_plan": port.link_layer,
    }[check]


def _rails(scope: PhaseScope, node: str) -> tuple[str, ...]:
    return tuple(scope.declared.nodes[node].get("rails") or ())


PHASE: Final = Phase("infiniband", "InfiniBand presence", evaluate, jobs)
