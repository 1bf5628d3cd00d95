"""A report as the reasons a person reads in Pulumi's output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import node_health
from rackwright.drivers.check_runner import RunOutcome
from rackwright.drivers.process import CompletedProcess, ProcessTimeoutError
from rackwright.drivers.supervision import INTERRUPTED
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import UNKNOWN
from rackwright.provider.protocol.resource import RecordedState, RequestContext
from rackwright.provider.stack import verification
from rackwright.provider.stack.verification import Verification, _reasons
from rackwright.remote.command import AS_ROOT


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
    lines = _reasons(report(check("slurm.ping", "worker1", "unknown", "it printed nothing"), check("slurm.runs", "worker1", "failed")))
    assert lines == ["slurm.runs[worker1] failed: expected active, found inactive", "slurm.ping[worker1] unknown: it printed nothing"]


def test_a_long_list_is_cut_and_says_where_the_rest_is() -> None:
    lines = _reasons(report(*(check(f"node.check_{number}", "worker1", "failed") for number in range(20))))
    assert len(lines) == 13 and lines[-1] == "and 8 more: `rackwright status lab` lists all"


def test_a_verdict_without_a_bad_check_is_still_told() -> None:
    assert _reasons({"stack": "lab", "checks": [], "verdict": "unknown"}) == ["the verdict is unknown"]


def test_all_good_is_no_line() -> None:
    assert _reasons(report()) == []


async def said(_: str) -> None:
    """Progress that is discarded."""


def test_checks_that_refuse_the_hand_over_leave_the_verdict_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of another version of rackwright; and an older report, should there be one, is not taken for an answer."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("lab")
    paths.inventory("lab").write_text("all: {vars: {handover: {}, cluster: {scheduler: {}}}, children: {}, hosts: {}}")
    stale = tmp_path / "report.json"
    stale.write_text('{"verdict": "passed"}')

    async def refused(**_: object) -> RunOutcome:
        return RunOutcome(2, stale, "handover.schema: speaks rackwright.inventory/1")

    monkeypatch.setattr(verification, "run_checks", refused)
    operation = RequestContext("urn", "lab", "verification", preview=False, status=said, info=said, warn=said)
    made = asyncio.run(Verification().read(operation, RecordedState("verification", {}, {"verdict": "passed"})))
    assert made.outputs["verdict"] == "unknown"
    assert made.init_errors == ("handover.schema: speaks rackwright.inventory/1",)


def test_interrupted_checks_give_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: Any) -> dict[str, Any]:
        return {**report(check("a", "login0", "unknown", "KeyboardInterrupt()")), "totals": {}, "started": ""}

    monkeypatch.setattr(verification, "_run", run)
    monkeypatch.setattr(verification.current, "cancelled", True)
    operation = RequestContext("urn", "lab", "verification", preview=False, status=said, info=said, warn=said)
    made = asyncio.run(Verification().create(operation, {"level": "smoke"}))
    assert made.init_errors == (INTERRUPTED,)
    assert made.outputs["verdict"] != "passed"


def test_preview_leaves_the_verdict_unknown() -> None:
    """A preview of a stack that was never up has proven nothing."""
    news = {"level": "smoke", "generation": "1", "digests": {}}
    foreseen = Verification().preview_outputs(news)
    assert {key: value for key, value in foreseen.items() if key not in news} == dict.fromkeys(
        ("verdict", "reasons", "totals", "finished", "run"), UNKNOWN
    )


SLURM = {"kind": "slurm", "health_interval_s": 60, "controllers": ["login0", "login1"]}
REASONS = """\
login0 none
worker0 rackwright: node.memory_matches_plan: expected at least 95% of 1024 MiB, found 929 MiB
worker0 rackwright: node.memory_matches_plan: expected at least 95% of 1024 MiB, found 929 MiB
worker1 new DIMM, alice
worker2 rackwright: rolling update
worker3 Not responding
worker4 rackwright: node.disk_space
"""
"""Output of sinfo --Node, which has a line for each partition of a node."""


class Nodes:
    """The controller and the workers: what they are asked, and what the controller answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: CompletedProcess, *, lost: bool = False) -> None:
        self.steps: list[str] = []
        self.answer = answer

        async def connect(_stack: str, _names: list[str], *, within: float) -> dict[str, str]:
            return {"login0": "no route"} if lost else {}

        monkeypatch.setattr(node_health.ssh_connections, "connect_all", connect)
        monkeypatch.setattr(node_health.ssh_connections, "run_ssh", self.run)

    async def run(self, _stack: str, name: str, command: str, *, timeout: float) -> CompletedProcess:
        """Answer as the controller; let a worker take too long."""
        self.steps.append(f"{name}: {command.removeprefix(AS_ROOT).strip()}")
        if name == "login0":
            return self.answer
        raise ProcessTimeoutError(f"ended after {timeout} s")


def with_scheduler(scheduler: dict[str, Any]) -> str:
    """Return an inventory with this scheduler."""
    return json.dumps({"all": {"vars": {"handover": {}, "cluster": {"scheduler": scheduler}}, "children": {}, "hosts": {}}})


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the inventory of a stack with Slurm."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("lab")
    paths.inventory("lab").write_text(with_scheduler(SLURM))
    return paths.inventory("lab")


def test_nodes_that_drained_themselves_are_checked_again_before_the_checks(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault was repaired, and Slurm's interval has not passed: the checks would report the old drain."""
    nodes = Nodes(monkeypatch, CompletedProcess((), 0, REASONS, ""))

    async def run(*_: Any) -> dict[str, Any]:
        nodes.steps.append("checks")
        return {**report(), "totals": {}, "started": ""}

    async def publish(*_: Any) -> list[str]:
        return []

    monkeypatch.setattr(verification, "_run", run)
    monkeypatch.setattr(verification, "report_from_dict", lambda found: found)
    monkeypatch.setattr(verification, "publish_verification", publish)
    monkeypatch.setattr(verification, "_spans", lambda *_: ())
    operation = RequestContext("urn", "lab", "verification", preview=False, status=said, info=said, warn=said)
    made = asyncio.run(Verification().create(operation, {"level": "smoke"}))
    health = "/usr/local/sbin/rackwright-node-health --now"
    assert made.outputs["verdict"] == "passed"
    assert nodes.steps[1:] == [f"worker0: {health}", f"worker4: {health}", "checks"]


@pytest.mark.parametrize(
    ("answer", "lost"),
    [(CompletedProcess((), 1, REASONS, "sinfo: error"), False), (CompletedProcess((), 0, REASONS, ""), True)],
    ids=["error", "lost"],
)
def test_controller_without_an_answer_names_no_drained_node(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, answer: CompletedProcess, lost: bool
) -> None:
    Nodes(monkeypatch, answer, lost=lost)
    assert asyncio.run(node_health.drained_nodes("lab", inventory)) == []


@pytest.mark.parametrize("scheduler", [{"kind": "kubernetes"}, {"kind": "slurm", "health_interval_s": None, "controllers": ["login0"]}])
def test_stack_without_health_checks_is_not_queried(inventory: Path, monkeypatch: pytest.MonkeyPatch, scheduler: dict[str, Any]) -> None:
    inventory.write_text(with_scheduler(scheduler))
    nodes = Nodes(monkeypatch, CompletedProcess((), 0, REASONS, ""))
    assert asyncio.run(node_health.drained_nodes("lab", inventory)) == [] and nodes.steps == []
