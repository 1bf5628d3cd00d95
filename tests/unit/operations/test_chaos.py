"""Injected failures: leases, and runs in which nodes and Slurm are replaced by a model of a cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support.chaos_cluster import TRAIN, Cluster

from rackwright.cli.render.chaos import run_text, score_text
from rackwright.drivers import node_kill, node_pause, remote_exec, ssh_connections
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import Host, inventory, paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations import stack as stacks
from rackwright.operations.chaos import event, injection, lease, permission, records, session, watchdog
from rackwright.operations.chaos.modes import SPECS, Mode, Place, affected, candidates, refusal
from rackwright.operations.chaos.observation import ChaosSite, Watch
from rackwright.operations.chaos.permission import require_allowed
from rackwright.operations.chaos.session import ChaosOptions, inject_failures, undo_all
from rackwright.operations.stack import load_plan
from rackwright.report.schemas import schema_errors

STACK = "lab-train"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"


def test_next_training_run_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user cancelled the run and submitted another between two events, and the failure disturbs the new one."""
    step = {"event": "step", "step": 1}

    async def answer(_stack: str, _program: str, requests: dict[str, Any], _sudo: Any, **_: Any) -> tuple[dict[str, Any], dict[str, str]]:
        followed = requests["login0"]["run"] or "new"
        jobs = [{"name": "new", "user": "alice"}]
        return {"login0": {"run": followed, "lines": [step], "offsets": {}, "now": 1.0, "error": "", "nodes": {}, "jobs": jobs}}, {}

    monkeypatch.setattr(remote_exec, "run_on_nodes", answer)
    running: Any = SimpleNamespace(name="lab", inventory=SimpleNamespace(target="lab", needs_sudo=lambda _name: False))
    watch = Watch(running, ChaosSite("login0", "alice", "/results"), 1, "old", [{"event": "end", "job": "1"}, step])
    asyncio.run(watch.observe_current_run())
    assert (watch.run, watch.has_run) == ("new", True)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack like lab-train that is up, with short times."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    plan = load_plan(STACK, lambda _finding: None)
    handed = inventory(plan, {node.name: Host(node.name, node.address, KEY, "1") for node in plan.nodes})
    paths.prepare(STACK)
    paths.inventory(STACK).write_text(yaml.safe_dump(handed))
    found = Cluster()

    async def connect_all(_stack: str, _names: Any, **_: Any) -> dict[str, str]:
        """Reach every node."""
        return {}

    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run_on_nodes)
    monkeypatch.setattr(ssh_connections, "connect_all", connect_all)
    monkeypatch.setattr(node_kill, "kill", found.kill)
    monkeypatch.setattr(node_kill, "start", found.start)
    monkeypatch.setattr(watchdog, "start", lambda _lease: None)
    monkeypatch.setattr(event, "_POLL", 0.01)
    monkeypatch.setitem(SPECS, Mode.NODE_KILL, replace(SPECS[Mode.NODE_KILL], seconds=0))  # type: ignore[arg-type]
    return found


async def ignore(_text: str) -> None:
    """Show nothing."""


def run(mode: str, **options: Any) -> dict[str, Any]:
    """Inject failures; return the record."""
    found = inject_failures(
        STACK, ChaosOptions(mode, **{"interval_s": 1, "duration_s": 1, "seed": 1, **options}), ignore, lambda _text: None
    )
    assert schema_errors("chaos", found) == []
    assert found == next(one for one in records.load_all(STACK, pytest.fail) if one["run"] == found["run"])
    return found


def test_killed_rank_is_detected_by_job_and_loses_steps(cluster: Cluster) -> None:
    cluster.step = 7
    cluster.lines = []
    found = run("rank_kill", node="worker1")
    (one,) = found["events"]
    assert one["target"] == {"node": "worker1", "rank": 1, "pid": 9, "job": "41"}
    assert (one["undone_by"], one["recovered"], one["run"], one["verdict"]) == ("itself", True, TRAIN, "passed")
    assert [by["by"] for by in one["detected_by"]] == ["training job"]
    assert found["verdict"]["result"] == "passed" and all(text in run_text(found) for text in ("passed: ", "rank_kill", "training job "))


def test_failures_are_published_while_they_last_and_afterwards(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    async def publish(_declared: Any, files: dict[str, str], **_options: Any) -> list[str]:
        texts.append(files["chaos"])
        return ["login0: cannot write the metrics of this run"]

    monkeypatch.setattr(session, "publish", publish)
    said: list[str] = []
    inject_failures(STACK, ChaosOptions("node_kill", 1, 1, 1), ignore, said.append)
    assert "rackwright_chaos_failure{" in texts[0] and "rackwright_chaos_failure{" not in texts[-1]
    assert 'verdict="passed"' in texts[-1] and said.count("login0: cannot write the metrics of this run") == 1
    texts.clear()
    undo_all(STACK, said.append)
    assert len(texts) == 1 and "rackwright_chaos_failure{" not in texts[0], "a killed command leaves its failures published"


def test_failures_are_published_at_each_change_and_silences_renewed_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[tuple[str, bool]] = []

    async def publish(_declared: Any, files: dict[str, str], *, renew_silences: bool = True) -> list[str]:
        published.append((files["chaos"], renew_silences))
        return []

    monkeypatch.setattr(session, "publish", publish)
    run("node_kill", node="worker1")
    assert ["rackwright_chaos_failure{" in text for text, _ in published] == [True, False]
    assert [renews for _, renews in published] == [True, False]


def test_killed_node_is_started_and_run_recovers(cluster: Cluster) -> None:
    (one,) = run("node_kill", node="worker1")["events"]
    assert cluster.done == [("kill", "worker1"), ("start", "worker1")]
    assert (one["undone_by"], one["recovered"], one["clean"]) == ("command", True, True)
    assert lease.open_leases(STACK) == []
    assert any(node == "login0" and "node_kill: undone by command" in text for node, text in cluster.logs)


def test_unit_undoes_lost_gpu_and_health_check_detects_it(cluster: Cluster) -> None:
    (one,) = run("gpu_lost")["events"]
    assert one["undone_by"] == "unit" and "node health check" in [by["by"] for by in one["detected_by"]]
    assert one["steps_lost"] == 0 and one["simulated"] == "a simulated GPU" and one["params"]["slot"] in (0, 1)


def test_scheduler_restart_needs_no_training(cluster: Cluster) -> None:
    cluster.trains = False
    (one,) = run("scheduler_restart")["events"]
    assert (one["target"]["node"], one["run"], one["recovered"], one["verdict"]) == ("login0", None, None, "passed")


def test_rank_kill_without_training_is_skipped(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "_PATIENCE", 0.05)
    cluster.trains = False
    found = run("rank_kill")
    assert found["events"][0]["verdict"] == "skipped" and found["verdict"] == {"result": "unknown", "reason": "no failure was injected"}
    assert cluster.done == []


def test_jobs_of_other_users_are_spared(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.user = "bob"
    with monkeypatch.context() as impatient:
        impatient.setattr(event, "_PATIENCE", 0.05)
        assert "job 41 of bob" in run("node_kill")["events"][0]["reason"] and cluster.done == []
    assert run("node_kill", everybody=True)["events"][0]["verdict"] == "passed"


def test_node_that_stays_down_fails_event(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: Any) -> None:
        """Start nothing."""

    monkeypatch.setattr(node_kill, "start", start)
    monkeypatch.setattr(event, "_LONGEST", 0.2)
    found = run("node_kill")
    assert (found["verdict"]["result"], found["events"][0]["clean"]) == ("failed", False)


def test_started_node_that_has_not_registered_is_not_clean(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(_stack: str, _target: str, node: str) -> None:
        """Start a node without slurmd."""
        cluster.down.discard(node)
        cluster.restart = True

    monkeypatch.setattr(node_kill, "start", start)
    monkeypatch.setattr(event, "_LONGEST", 0.2)
    (one,) = run("node_kill")["events"]
    assert (one["recovered"], one["clean"], one["verdict"]) == (True, False, "failed")


def test_interrupt_undoes_open_event(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setitem(SPECS, Mode.NODE_KILL, replace(SPECS[Mode.NODE_KILL], seconds=60))  # type: ignore[arg-type]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts `pytest &` with SIGINT ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt() -> None:
        if cluster.down:
            os.kill(os.getpid(), signal.SIGINT)
            cluster.on_watch = lambda: None

    cluster.on_watch = interrupt
    with pytest.raises(UndeterminedError, match="failures are undone"):
        run("node_kill")
    (document,) = records.load_all(STACK, pytest.fail)
    assert cluster.down == set() and lease.open_leases(STACK) == []
    assert document["ended"] and document["events"][0]["undone_by"] == "command"


def test_random_run_repeats_with_seed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
    cluster.trains = True
    first, second = (
        [(one["mode"], one["target"]["node"], one["scheduled_s"]) for one in run("random", duration_s=3, seed=4)["events"]]
        for _ in range(2)
    )
    assert first == second and len(first) == 3


def test_stack_must_allow_chaos(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = stacks.require_valid(STACK, lambda _finding: None)
    refused = valid[1].model_copy(update={"chaos": "refused"})
    monkeypatch.setattr(permission, "require_valid", lambda *_: (STACK, refused))
    with pytest.raises(InputError, match="may not be injected") as raised:
        require_allowed(STACK)
    assert "add `chaos: allowed` to" in raised.value.hint


@pytest.mark.parametrize(
    ("mode", "node", "cause"), [("node_kill", "login0", "cannot receive"), ("storage_stall", "worker0", "cannot receive")]
)
def test_node_that_cannot_receive_mode_is_refused(cluster: Cluster, mode: str, node: str, cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        run(mode, node=node)


def test_modes_name_what_target_cannot_do(cluster: Cluster) -> None:
    declared = RunningStack.of(STACK).inventory
    assert [mode for mode in Mode if refusal(mode, declared)] == []
    assert "paused on target lab only" in refusal(Mode.NODE_PAUSE, replace(declared, target="vm"))
    real = replace(declared, cluster={**declared.cluster, "simulated": [], "storage": []})
    assert "only simulated GPUs" in refusal(Mode.XID, real) and "no shared file system" in refusal(Mode.STORAGE_STALL, real)


def test_failure_of_controller_affects_all_nodes(cluster: Cluster) -> None:
    declared = RunningStack.of(STACK).inventory
    assert affected(Mode.SCHEDULER_RESTART, "login0", declared) == ("login0", "worker0", "worker1")
    assert affected(Mode.NODE_KILL, "worker1", declared) == ("worker1",)
    assert candidates(Mode.STORAGE_STALL, declared) == ("login0",) and SPECS[Mode.STORAGE_STALL].place is Place.STORAGE


def grant(deadline: float = 0.0, *, dead: bool = False, age: float = 0.0) -> lease.Lease:
    """Return a lease for worker1; `dead`: of a process that has exited."""
    (paths.chaos(STACK)).mkdir(exist_ok=True)
    found = lease.grant(STACK, "lab", "worker1", lease.Undo.START, "e-1", time.time() + deadline)
    if dead:
        found = replace(found, since=1)
        file = paths.chaos_leases(STACK) / "e-1.lease.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "since": 1, "granted": time.time() - age}))
    return found


def test_lease_is_ended_once(cluster: Cluster) -> None:
    granted = grant()

    async def both() -> list[bool]:
        return list(await asyncio.gather(lease.end(granted, "command"), lease.end(granted, "watchdog")))

    assert sorted(asyncio.run(both())) == [False, True] and cluster.done == [("start", "worker1")]
    assert (lease.ended(STACK, "e-1") or {})["by"] in ("command", "watchdog") and lease.open_leases(STACK) == []


@pytest.mark.parametrize(
    ("deadline", "dead", "age", "is_due"),
    [(60.0, False, 0.0, False), (-1.0, False, 0.0, True), (60.0, True, 30.0, True), (60.0, True, 1.0, False)],
)
def test_later_command_ends_due_leases(cluster: Cluster, deadline: float, dead: bool, age: float, is_due: bool) -> None:
    said: list[str] = []
    grant(deadline, dead=dead, age=age)
    lease.end_due_before(STACK, "next command", said.append)
    assert (cluster.done == [("start", "worker1")]) == is_due == bool(said)


def test_command_without_leases_does_nothing(cluster: Cluster) -> None:
    lease.end_due_before(STACK, "next command", lambda _text: pytest.fail("no lease"))
    assert not paths.chaos(STACK).exists()


def test_lease_of_node_that_does_not_start_stays(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: Any) -> None:
        raise RackwrightError("podman start: no such container")

    monkeypatch.setattr(node_kill, "start", start)
    with pytest.raises(RackwrightError):
        asyncio.run(lease.end(grant(), "command"))
    assert len(lease.open_leases(STACK)) == 1


def test_paused_node_is_resumed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[str] = []

    async def resume(_stack: str, node: str) -> None:
        resumed.append(node)

    monkeypatch.setattr(node_pause, "resume", resume)
    asyncio.run(lease.end(replace(grant(), undo=lease.Undo.RESUME), "command"))
    assert resumed == ["worker1"]


def test_damaged_lease_is_an_error_with_advice(cluster: Cluster) -> None:
    grant()
    (paths.chaos_leases(STACK) / "e-2.lease.json").write_text("{}")
    with pytest.raises(RackwrightError, match="is no lease") as raised:
        lease.open_leases(STACK)
    assert "podman start" in raised.value.hint


def test_undo_ends_leases_and_units_and_closes_record(cluster: Cluster) -> None:
    document = run("node_kill")
    open_event = {**document["events"][0], "id": "e-1", "undone": None, "undone_by": None, "verdict": "unknown"}
    records.save(STACK, {**document, "ended": None, "events": [open_event]})
    grant(600.0)
    cluster.units = {"worker0": {"e-7"}}
    assert undo_all(STACK, lambda _text: None) == ["e-1", "e-7"]
    (closed,) = records.load_all(STACK, pytest.fail)
    assert schema_errors("chaos", closed) == []
    assert (closed["events"][0]["undone_by"], closed["verdict"]["result"]) == ("--undo", "unknown") and closed["ended"]


def test_undo_reports_nodes_that_do_not_answer(cluster: Cluster) -> None:
    cluster.down = {"worker0"}
    with pytest.raises(UndeterminedError, match="worker0: no response"):
        undo_all(STACK, lambda _text: None)


def test_second_command_is_refused(cluster: Cluster) -> None:
    with lease.only_command(STACK), pytest.raises(RackwrightError, match="another command injects failures"):
        run("node_kill")


def test_score_lists_recorded_runs(cluster: Cluster) -> None:
    assert score_text(STACK, []) == f"stack {STACK}: no run is on record"
    found = run("node_kill")
    row = score_text(STACK, records.load_all(STACK, pytest.fail)).splitlines()[1].split("  ")
    assert found["run"] in row[0] and "1 of 1" in row


@pytest.mark.parametrize("part", ["score", "events", "run", "verdict", "ended"])
def test_incomplete_record_is_named_and_the_others_are_shown(cluster: Cluster, part: str) -> None:
    found = run("node_kill")
    file = paths.chaos(STACK) / "chaos-0.json"
    file.write_text(json.dumps({key: value for key, value in found.items() if key != part}))
    named: list[str] = []
    rows = score_text(STACK, records.load_all(STACK, named.append)).splitlines()
    assert len(rows) == 2 and found["run"] in rows[1]
    assert named == [
        f"{file}: left out, no record of rackwright.chaos/1: $: '{part}' is a required property\n  move the file away if it is not needed"
    ]
    assert undo_all(STACK, pytest.fail) == []


def test_injector_reports_refusal_of_node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_stack: str, program: str, requests: dict[str, Any], *_: Any, **__: Any) -> tuple[Any, Any]:
        return {node: {"error": "tc is not installed"} for node in requests}, {}

    monkeypatch.setattr(remote_exec, "run_on_nodes", refuse)
    with pytest.raises(RackwrightError, match="tc is not installed"):
        asyncio.run(injection.Injector(RunningStack.of(STACK), "alice", "login0", "", 1).ask("worker0", "units"))
    assert session.RANDOM == "random"
