"""The verdict of a search: a finding for each node, and the document with the culprits, their evidence and every round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rackwright.checks.acceptance.bisection.collective import Collective
from rackwright.checks.acceptance.bisection.group_test import (
    LEAST,
    Culprit,
    CulpritKind,
    Figure,
    FigureState,
    Outcome,
    SearchResult,
    SearchSpace,
    expected_of,
    state_of,
)
from rackwright.checks.acceptance.phase import Finding, Measurement, unknown
from rackwright.report.verdict import Verdict

PHASE: Final = "bisection"
TITLE: Final = "Bisection"
CHECK: Final = "carries_data_as_planned"
_EVIDENCE: Final = 3
"""Most groups of each side that the verdict lists; the rounds have all."""
_NEXT: Final = {
    CulpritKind.NODE: "drain {names}; `rackwright hardware {stack}` and `rackwright drift {stack}` compare its devices, links and settings",
    CulpritKind.PAIR: "compare the routes between {names} (`ibtracert` on InfiniBand), then the error counters of each link on the way",
    CulpritKind.LEAF: "read the error counters of {names} and of its links to the spines (`ibqueryerrors`)",
    CulpritKind.RAIL: "read the error counters of the switches of rail {names}, and `NCCL_IB_HCA` in /etc/nccl.conf",
    CulpritKind.FABRIC: "verify the expected figure first; then read the subnet manager's log and the settings that all nodes share",
}


def findings(result: SearchResult, space: SearchSpace, collective: Collective) -> Iterator[Finding]:
    """Yield one finding for each node that was measured: failed if a culprit affects it, passed if a group with it is as planned."""
    best = _best(result, space)
    expected = f"at least {shown(LEAST * result.expected, collective)}"
    for node in space.nodes:
        own = [culprit for culprit in result.culprits if node in culprit.nodes]
        figure = best.get(node)
        measured = () if figure is None else (Measurement("all-to-all", figure, collective.unit),)
        found = "no group completed" if figure is None else f"{shown(figure, collective)} in its best group"
        if own:
            worst = min(_slow_values(own[0], result, space), default=0.0)
            found = f"{shown(worst, collective)}: {describe(own[0])}"
            yield Finding(CHECK, node, Verdict.FAILED, f"{describe(own[0])} is slow", expected, found, measured)
        elif result.outcome is Outcome.UNDETERMINED:
            yield unknown(CHECK, node, result.reason)
        elif result.outcome is Outcome.ONLY_TOGETHER:
            yield unknown(CHECK, node, "all nodes together are slow, and no smaller group is")
        else:
            yield Finding(CHECK, node, Verdict.PASSED, "", expected, found, measured)


def as_document(
    result: SearchResult, space: SearchSpace, collective: Collective, left_out: Mapping[str, str], stack: str
) -> dict[str, Any]:
    """Return the search in the format of `bisection` in `rackwright.acceptance`."""
    return {
        "outcome": result.outcome.value,
        "reason": result.reason,
        "collective": collective.title,
        "unit": collective.unit,
        "expected": round(result.expected, 3),
        "least": round(LEAST * result.expected, 3),
        "nodes": list(space.nodes),
        "left_out": dict(left_out),
        "jobs": len(result.figures),
        "culprits": [_culprit(culprit, result, space, stack) for culprit in result.culprits],
        "rounds": [[_figure(figure, result, space) for figure in figures] for figures in result.rounds],
    }


def describe(culprit: Culprit) -> str:
    """Return the culprit in words.

    >>> describe(Culprit(CulpritKind.NODE, ("worker3",), ("worker3",), "mlx5_1"))
    'node worker3 on mlx5_1'
    """
    rail = f" on {culprit.rail}" if culprit.rail and culprit.kind is not CulpritKind.RAIL else ""
    if culprit.undecided and culprit.kind is CulpritKind.PAIR:
        return f"{culprit.names[0]}, {culprit.names[1]} or the path between them{rail}"
    if culprit.undecided:
        return f"at least one of {culprit.kind.value} {', '.join(culprit.names)}{rail}"
    if culprit.sides is not None and len(culprit.nodes) > 2:
        sides = culprit.names if culprit.kind is CulpritKind.LEAF else [", ".join(side) for side in culprit.sides]
        return f"paths between {sides[0]} and {sides[-1]}{rail}"
    return f"{culprit.kind.value} {' and '.join(culprit.names)}{rail}"


def shown(value: float, collective: Collective) -> str:
    """Return a figure with its unit."""
    return f"{value:.3g} {collective.unit}"


def _culprit(culprit: Culprit, result: SearchResult, space: SearchSpace, stack: str) -> dict[str, Any]:
    mine = [figure for figure in result.figures if culprit.explains(figure.test) and _is_slow(figure, result, space)]
    others = [figure for figure in result.figures if not culprit.explains(figure.test) and not _is_slow(figure, result, space)]
    same_rail = [figure for figure in mine if figure.test.rail == culprit.rail] or mine
    return {
        "kind": culprit.kind.value,
        "names": list(culprit.names),
        "nodes": list(culprit.nodes),
        "rail": culprit.rail,
        "undecided": culprit.undecided,
        "text": describe(culprit),
        "measured": round(min((figure.value or 0.0 for figure in same_rail), default=0.0), 3),
        "expected": round(expected_of(same_rail[0].test, space, result.expected), 3) if same_rail else round(result.expected, 3),
        "slow": _evidence(sorted(same_rail, key=_size)),
        "as_planned": _evidence(sorted(others, key=_size, reverse=True)),
        "next": _NEXT[culprit.kind].format(names=" and ".join(culprit.names), stack=stack),
    }


def _evidence(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the first groups, each once, with the figure of its last measurement."""
    last = {figure.test: figure for figure in figures}
    return [_named(figure) for figure in list(last.values())[:_EVIDENCE]]


def _named(figure: Figure) -> dict[str, Any]:
    return {"nodes": list(figure.test.nodes), "rail": figure.test.rail, "value": round(figure.value or 0.0, 3)}


def _figure(figure: Figure, result: SearchResult, space: SearchSpace) -> dict[str, Any]:
    value = None if figure.value is None else round(figure.value, 3)
    state = state_of(figure, expected_of(figure.test, space, result.expected)).value
    return {
        "nodes": list(figure.test.nodes),
        "rail": figure.test.rail,
        "value": value,
        "state": state,
        "error": figure.error,
        "job": figure.job,
    }


def _size(figure: Figure) -> int:
    return len(figure.test.nodes)


def _is_slow(figure: Figure, result: SearchResult, space: SearchSpace) -> bool:
    return state_of(figure, expected_of(figure.test, space, result.expected)) is not FigureState.AS_PLANNED


def _slow_values(culprit: Culprit, result: SearchResult, space: SearchSpace) -> list[float]:
    return [figure.value or 0.0 for figure in result.figures if culprit.explains(figure.test) and _is_slow(figure, result, space)]


def _best(result: SearchResult, space: SearchSpace) -> dict[str, float]:
    """Return the best figure of a group over all rails, by node."""
    found: dict[str, float] = {}
    for figure in result.figures:
        for node in figure.test.nodes if figure.value and figure.test.rail is None else ():
            found[node] = max(found.get(node, 0.0), figure.value or 0.0)
    return found
