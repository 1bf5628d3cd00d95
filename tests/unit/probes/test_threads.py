"""Threads of each core as lscpu lists them, and the check against the plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.probes.identity import THREADS, parse_threads
from rackwright.report.verdict import Verdict

FOLDER = Path(__file__).parents[1] / "captured" / "threads"
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def captured(case: str) -> str:
    return (FOLDER / f"{case}.txt").read_text(encoding="utf-8")


def verdict(text: str, planned: int) -> Verdict:
    """Return the verdict for a node with so many planned threads per core."""
    found = verdict_of(test_node.test_threads_match_plan, answers_of({THREADS: text}), node=SimpleNamespace(threads_per_core=planned))
    return found[0]


@pytest.mark.parametrize(
    ("case", "planned", "result"),
    [
        ("good", 2, PASSED),
        ("good", 1, FAILED),
        ("good-off", 1, PASSED),
        ("good-off", 2, FAILED),
        ("good-no-smt", 1, PASSED),
        ("mixed", 2, FAILED),
        ("mixed", 1, FAILED),
        ("broken", 1, UNKNOWN),
        ("broken-no-cores", 1, UNKNOWN),
    ],
)
def test_threads_are_compared(case: str, planned: int, result: Verdict) -> None:
    assert verdict(captured(case), planned) is result


def test_smt_state_and_uneven_cores_are_reported() -> None:
    assert parse_threads(captured("mixed")).described == "1 and 2 (SMT on)"
    assert parse_threads(captured("good-off")).described == "1 (SMT off)"


def test_truncated_list_is_unknown() -> None:
    """The last line may name another core."""
    assert verdict(captured("good").rstrip("\n"), 2) is UNKNOWN
    assert verdict(captured("good").rstrip("\n")[:-1] + "1", 2) is UNKNOWN


TWO_SOCKETS = "smt=on\n# CPU,Core,Socket\n0,0,0\n1,1,0\n2,2,1\n3,3,1\n4,0,0\n5,1,0\n6,2,1\n7,3,1\n"


@pytest.mark.parametrize(
    ("text", "planned", "result"),
    [
        (TWO_SOCKETS, 2, PASSED),
        (TWO_SOCKETS, 1, FAILED),
        (TWO_SOCKETS, None, PASSED),
        (TWO_SOCKETS.replace(",1\n", ",\n"), 2, UNKNOWN),
        (captured("good"), 2, UNKNOWN),
    ],
)
def test_sockets_are_compared_where_declared(text: str, planned: int | None, result: Verdict) -> None:
    node = SimpleNamespace(threads_per_core=2, sockets=planned)
    assert verdict_of(test_node.test_threads_match_plan, answers_of({THREADS: text}), node=node)[0] is result
