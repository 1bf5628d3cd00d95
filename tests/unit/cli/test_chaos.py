"""`rackwright chaos`: options, refusals, and what `up` does before it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Run, run_cli

from rackwright.cli import up
from rackwright.drivers import node_kill
from rackwright.inventory import paths
from rackwright.operations.chaos import lease, session


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in this process, without a stack that is up."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    return lambda *arguments: run_cli(monkeypatch, capsys, *arguments)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "--mode: is missing"),
        (["--mode", "rank_kil"], "did you mean `rank_kill`?"),
        (["--mode", "xid", "--interval", "0s"], "--interval: is too short"),
        (["--mode", "xid", "--for", "ten"], "--for: 'ten' is not a duration"),
        (["--mode", "network_slow", "--bandwidth-limit", "10"], "--bandwidth-limit: is no bandwidth: 10"),
        (["--mode", "rank_kill"], "stack lab-small: failures may not be injected into this stack"),
        (["--undo"], "stack lab-small: is not up"),
    ],
)
def test_wrong_command_is_refused_with_reason(run: Run, words: list[str], error: str) -> None:
    ended = run("chaos", "lab-small", *words)
    assert ended.code == 2 and error in ended.err and "Traceback" not in ended.err, ended.err


@pytest.mark.parametrize(("result", "code"), [("passed", 0), ("failed", 1), ("unknown", 3)])
def test_verdict_is_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch, result: str, code: int) -> None:
    asked: list[session.ChaosOptions] = []

    def inject(_stack: str, options: session.ChaosOptions, *_: object) -> dict[str, object]:
        asked.append(options)
        return {"verdict": {"result": result, "reason": ""}}

    monkeypatch.setattr(session, "inject_failures", inject)
    ended = run("chaos", "lab", "--mode", "random", "--interval", "2m", "--for", "10m", "--seed", 7, "--target", "worker1", "--json")
    assert ended.code == code and json.loads(ended.out)["verdict"]["result"] == result
    assert asked == [session.ChaosOptions("random", 120, 600, 7, "10mbit", "worker1", everybody=False)]


def test_score_without_records_says_so(run: Run) -> None:
    ended = run("chaos", "lab", "--score")
    assert (ended.code, ended.out) == (0, "stack lab: no run is on record\n")


def test_up_starts_node_that_killed_command_stopped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def start(_stack: str, _target: str, node: str) -> None:
        done.append(f"start {node}")

    def run_traced(verb: str, _stack: str, _run: object) -> int:
        done.append(verb)
        return 0

    monkeypatch.setattr(node_kill, "start", start)
    monkeypatch.setattr(up.pulumi, "install_prerequisites", lambda _stack: None)
    monkeypatch.setattr(up, "run_traced", run_traced)
    paths.prepare("lab")
    paths.chaos("lab").mkdir()
    lease.grant("lab", "lab", "worker1", lease.Undo.START, "e-1", deadline=0.0)
    ended = run("up", "lab")
    assert done == ["start worker1", "up"] and "worker1: started again" in ended.err
