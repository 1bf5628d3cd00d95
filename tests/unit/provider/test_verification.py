"""A report as the reasons a person reads in Pulumi's output."""

from __future__ import annotations

from typing import Any

from rackwright.provider.verification import _reasons


def check(name: str, node: str, verdict: str, reason: str = "") -> dict[str, Any]:
    """One result."""
    return {"id": f"{name}[{node}]", "node": node, "verdict": verdict, "reason": reason, "expected": "active", "found": "inactive"}


def report(*checks: dict[str, Any]) -> dict[str, Any]:
    """A report of these."""
    return {"stack": "lab", "checks": list(checks), "verdict": "unknown" if checks else "passed"}


def test_a_silent_node_is_one_line() -> None:
    silent = [check(f"node.check_{number}", "worker1", "unknown", "worker1 is unreachable") for number in range(53)]
    assert _reasons(report(*silent)) == ["worker1: 53 checks unknown: worker1 is unreachable"]


def test_what_failed_comes_before_what_could_not_be_told() -> None:
    lines = _reasons(report(check("slurm.ping", "worker1", "unknown", "it said nothing"), check("slurm.runs", "worker1", "failed")))
    assert lines == ["slurm.runs[worker1] failed: expected active, found inactive", "slurm.ping[worker1] unknown: it said nothing"]


def test_a_long_list_is_cut_and_says_where_the_rest_is() -> None:
    lines = _reasons(report(*(check(f"node.check_{number}", "worker1", "failed") for number in range(20))))
    assert len(lines) == 13 and lines[-1] == "and 8 more: `rackwright status lab` lists all"


def test_a_verdict_without_a_bad_check_is_still_told() -> None:
    assert _reasons({"stack": "lab", "checks": [], "verdict": "unknown"}) == ["the verdict is unknown"]


def test_all_good_is_no_line() -> None:
    assert _reasons(report()) == []
