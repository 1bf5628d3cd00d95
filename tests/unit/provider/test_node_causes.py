"""Nodes that stop responding during the checks are reported with the cause that this machine sees."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.provider.stack import node_causes
from rackwright.provider.stack.node_causes import causes_of_silent_nodes
from rackwright.provider.vm import node_failure

PANICKED = "the guest's kernel panicked; the last lines of QEMU and its console: Oops: int3"


def unknown(node: str, reason: str, verdict: str = "unknown") -> dict[str, Any]:
    """Return a result of a check."""
    return {"node": node, "verdict": verdict, "reason": reason}


def causes(monkeypatch: pytest.MonkeyPatch, target: str, *checks: dict[str, Any]) -> list[str]:
    """Return the lines of a stack where the machines of worker1 and worker2 panicked."""

    async def failure_of(_stack: str, name: str, *, last: bool) -> str | None:
        assert not last
        return PANICKED if name in ("worker1", "worker2") else None

    monkeypatch.setattr(node_failure, "failure_of", failure_of)
    monkeypatch.setattr(node_causes, "load", lambda _file: SimpleNamespace(target=target))
    return asyncio.run(causes_of_silent_nodes("small", {"checks": list(checks)}))


SILENT = (
    unknown("worker1", "worker1 stopped responding: the connection ended"),
    unknown("worker1", "sshd-offer: worker1 is unreachable: Connection timed out during banner exchange"),
)


def test_node_is_named_once_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert causes(monkeypatch, "vm", *SILENT) == [f"worker1: {PANICKED}"]


def test_nodes_elsewhere_have_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert causes(monkeypatch, "hosts", *SILENT) == []


@pytest.mark.parametrize(
    "check",
    [
        unknown("worker0", "worker0 is unreachable: No route to host"),  # its machine runs
        unknown("worker2", "worker1 is unreachable: No route to host"),  # another node is silent
        unknown("worker12", "worker1 stopped responding: the connection ended"),
        unknown("worker2", "no job ran here"),
        unknown("worker2", "worker2 stopped responding: as expected", "passed"),
    ],
)
def test_other_results_have_no_cause(monkeypatch: pytest.MonkeyPatch, check: dict[str, Any]) -> None:
    assert causes(monkeypatch, "vm", check) == []
