"""`rackwright drift` and `rackwright drift-history`: what they refuse, how they end, and that healing says first what it does."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cli import CliResult, run_cli

from rackwright.drift import configuration
from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.drivers import pulumi
from rackwright.drivers.shown_process import ShownProcess
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.model.drift import DriftPolicy
from rackwright.operations import stack as judging
from rackwright.operations.drift import publication, reconcile, scan
from rackwright.operations.drift.host_baseline import SIMULATED_FABRIC, BaselineStates, without_transient
from rackwright.yaml_loader import load_yaml

STOPPED = DriftItem(Layer.BEHAVIOUR, "worker0", "munge.service_runs", "active", "inactive", Category.BREAKING, "start it")
OPENED = DriftItem(Layer.BEHAVIOUR, "worker1", "sshd.password_auth_disabled", "no", "yes", Category.SECURITY, "close it")
INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"
BEGAN = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


class Night:
    """A stack that is up, what each scan of it finds, and what was run on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.found: list[tuple[DriftItem, ...]] = []
        self.states: list[BaselineStates] = []
        self.ran: list[list[str]] = []
        self.status = 0

    async def scan(self, running: RunningStack, progress: Any, *, with_baseline: bool) -> tuple[DriftReport, BaselineStates]:
        differences = self.found.pop(0)
        scans = (LayerScan(Layer.RESOURCES, 1.0), LayerScan(Layer.CONFIGURATION, 1.0), LayerScan(Layer.BEHAVIOUR, 1.0, differences))
        return DriftReport(running.name, "0" * 12, BEGAN + timedelta(days=-len(self.found)), 2.0, scans), self.states.pop(
            0
        ) if self.states else BaselineStates()

    def run(self, command: list[str], **_: Any) -> ShownProcess:
        self.ran.append(command[1:])
        return ShownProcess(self.status, False, self.status == 130)

    def __call__(self, *words: str) -> CliResult:
        self.monkeypatch.setattr(scan, "scan", self.scan)
        self.monkeypatch.setattr(reconcile, "run_shown", self.run)
        self.monkeypatch.setattr(pulumi, "executable", lambda: Path("pulumi"))
        return run_cli(self.monkeypatch, self.capsys, *words)


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Night:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.prepare("lab")
    paths.inventory("lab").write_text(INVENTORY.read_text(encoding="utf-8"))
    return Night(monkeypatch, capsys)


def test_a_stack_that_is_not_up_is_told_with_what_brings_it_up(night: Night) -> None:
    said = night("drift", "lab-large")
    assert (said.code, night.found) == (2, []) and "rackwright up lab-large" in said.err


def test_a_layer_that_is_none_is_told_before_anything_is_looked_at(night: Night) -> None:
    said = night("drift", "lab", "--reconcile", "resources,behavior")
    assert said.code == 2 and "behaviour" in said.err


@pytest.mark.parametrize(("found", "code", "state"), [((), 0, "clean"), ((STOPPED,), 1, "drifted")])
def test_the_exit_code_says_what_the_document_says(night: Night, found: tuple[DriftItem, ...], code: int, state: str) -> None:
    night.found = [found]
    said = night("drift", "lab", "--json")
    assert (said.code, json.loads(said.out)["state"]) == (code, state)
    assert json.loads(paths.drift("lab").read_text()) == json.loads(said.out)


@pytest.mark.parametrize("file", [paths.drift, paths.drift_history, paths.drift_page, paths.drift_junit])
def test_what_is_kept_is_for_its_owner_alone(night: Night, file: Any) -> None:
    night.found = [(STOPPED,)]
    night("drift", "lab")
    assert file("lab").stat().st_mode & 0o777 == 0o600


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2])


def _overwrite_last_page(file: Path) -> None:
    """The pages of an empty history are 4096 bytes (https://www.sqlite.org/pragma.html#pragma_page_size)."""
    file.write_bytes(file.read_bytes()[:-4096] + b"\xff" * 4096)


def _set(column: str, text: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        table = "scans" if column == "state" else "differences"
        with closing(sqlite3.connect(file)) as base, base:
            base.execute(f"UPDATE {table} SET {column} = ?", (text,))

    return change


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_bytes(b"\xff\xfe\x80\x81"), "file is not a database"),
        (_cut, "database disk image is malformed"),
        (_overwrite_last_page, ""),
        (_set("state", "cleen"), "'cleen' is not a valid State"),
        (_set("class", "breakin"), "'breakin' is not a valid Category"),
        (_set("first", "yesterday"), "Invalid isoformat string: 'yesterday'"),
    ],
)
def test_damaged_history_is_named_before_the_scan(night: Night, damage: Callable[[Path], None], reason: str) -> None:
    night.found = [(STOPPED,)]
    night("drift", "lab")
    file = paths.drift_history("lab")
    damage(file)
    night.found = [(STOPPED,)]
    said = night("drift", "lab")
    assert (said.code, said.out, night.found) == (3, "", [(STOPPED,)])
    assert said.err.startswith(f"{file}: the drift history is damaged: {reason}")
    assert said.err.endswith("\n  move the file away: the next `rackwright drift` starts a new history\n")


def test_folder_in_place_of_history_is_named_before_the_scan(night: Night) -> None:
    night.found = [(STOPPED,)]
    paths.drift_history("lab").mkdir()
    said = night("drift", "lab")
    assert (said.code, said.out, night.found) == (3, "", [(STOPPED,)])
    assert "cannot open or write the drift history" in said.err


def test_scan_that_was_interrupted_leaves_no_history(night: Night) -> None:
    async def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    night.scan = interrupted  # type: ignore[method-assign]
    assert night("drift", "lab").code == 3
    assert "no drift scan has run yet" in night("drift-history", "lab").err


def test_healing_says_what_it_does_then_does_it_and_looks_again(night: Night) -> None:
    night.found = [(STOPPED,), ()]
    said = night("drift", "lab", "--reconcile", "behaviour")
    assert said.code == 0 and "reconciling the hosts: apply the playbooks to every existing node" in said.err and "1 resolved" in said.out
    assert len(night.ran) == 1 and night.ran[0][:4] == ["up", "--stack", "lab", "--refresh"] and "--target" in night.ran[0]


def test_where_nothing_differs_in_a_layer_nothing_is_run(night: Night) -> None:
    night.found = [(STOPPED,)]
    said = night("drift", "lab", "--reconcile", "resources")
    assert said.code == 1 and night.ran == [] and "nothing to reconcile in resources" in said.err


def test_a_healing_that_fails_is_no_success(night: Night) -> None:
    night.found, night.status = [(STOPPED, OPENED), (OPENED,)], 1
    said = night("drift", "lab", "--reconcile", "all")
    assert said.code == 1 and "some differences remain; errors above, differences below" in said.err
    assert OPENED.subject in said.out and STOPPED.subject not in said.out and night.found == []


def test_a_healing_that_fails_is_none_where_nothing_differs_any_more_either(night: Night) -> None:
    night.found, night.status = [(STOPPED,), ()], 1
    assert night("drift", "lab", "--reconcile", "all").code == 1


def test_nothing_is_scanned_after_an_interrupted_reconciliation(night: Night) -> None:
    night.found, night.status = [(STOPPED,), ()], 130
    said = night("drift", "lab", "--reconcile", "all")
    assert said.code == 3 and "reconciliation was interrupted" in said.err and "run the same command again" in said.err
    assert len(night.found) == 1


def test_history_tells_since_when_and_until_when(night: Night) -> None:
    night.found = [(STOPPED,), (STOPPED,), ()]
    for _ in range(3):
        night("drift", "lab")
    kept = json.loads(night("drift-history", "lab", "--json").out)
    assert [scan["state"] for scan in kept["scans"]] == ["clean", "drifted", "drifted"]
    assert [(one["subject"], one["first"], one["resolved"]) for one in kept["differences"]] == [
        ("munge.service_runs", (BEGAN - timedelta(days=2)).isoformat(), BEGAN.isoformat())
    ]
    assert "resolved" in night("drift-history", "lab").out


def test_a_history_nobody_wrote_is_told_with_what_writes_it(night: Night) -> None:
    said = night("drift-history", "lab")
    assert said.code == 2 and "rackwright drift lab" in said.err


def test_a_silence_is_told_once_and_is_no_green(night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(publication, "send", lambda message, policy: told.append(message) or [])
    night.found = [()]
    night("drift", "lab")
    for _ in range(2):
        said = night("drift-history", "lab", "--max-age", "1h")
        assert said.code == 3 and "no drift scan finished" in said.err
    assert len([message for message in told if message]) == 1


def test_a_timer_that_never_ran_is_told_from_when_the_stack_came_up(night: Night) -> None:
    assert night("drift-history", "lab", "--max-age", "1h").code == 0
    os.utime(paths.inventory("lab"), (0, 0))
    said = night("drift-history", "lab", "--max-age", "1h")
    assert said.code == 3 and "no drift scan finished" in said.err


def test_a_stack_file_that_cannot_be_read_is_no_empty_one(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(loaded=SimpleNamespace(cluster=None), findings=("drift.alow: is not known",))
    monkeypatch.setattr(judging, "validate", lambda file: wrong)
    said = night("drift", "lab")
    assert said.code == 2 and "drift.alow" in said.err


def test_a_look_that_was_in_time_is_told_to_nobody(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night.found = [()]
    night("drift", "lab")
    assert night("drift-history", "lab", "--max-age", "24000d").code == 0


def has(**listening: str) -> BaselineStates:
    """What one node has."""
    return BaselineStates(
        {"worker0": {"node": {"life": "a"}, "listening": {name.replace("_", " "): value for name, value in listening.items()}}}
    )


def subjects(said: CliResult) -> list[str]:
    return [one["subject"] for one in json.loads(said.out)["differences"]]


def test_what_came_since_all_was_well_differs_until_it_goes_or_is_accepted(night: Night) -> None:
    night.found = [()] * 5
    night.states = [has(tcp_22="user 0"), has(tcp_22="user 0", tcp_4444="user 0"), has(tcp_22="user 0", tcp_4444="user 0"), has(), has()]
    said = [night("drift", "lab", "--json") for _ in range(2)]
    assert [subjects(one) for one in said] == [[], ["baseline.listening tcp 4444"]] and said[1].code == 1
    assert subjects(night("drift", "lab", "--json", "--update-baseline")) == []
    assert subjects(night("drift", "lab", "--json")) == ["baseline.listening tcp 22", "baseline.listening tcp 4444"]


def test_what_a_node_has_while_something_differs_there_is_not_what_it_has_when_all_is_well(night: Night) -> None:
    night.found = [(STOPPED,), (), ()]
    night.states = [has(tcp_4444="user 0"), has(), has(tcp_4444="user 0")]
    assert [subjects(night("drift", "lab", "--json")) for _ in range(3)] == [["munge.service_runs"], [], ["baseline.listening tcp 4444"]]


def test_a_file_that_a_phase_would_write_again_is_named_by_the_phase_alone(night: Night) -> None:
    night.states = [has(), BaselineStates({"worker0": {**has().nodes["worker0"], "listening": {"/etc/a": "1", "/etc/b": "1"}}})]
    task = {"host": "worker0", "phase": "storage", "role": "moosefs_client", "task": "Mount", "detail": "/etc/a, a.mount"}
    written = configuration.scan("lab", 1.0, [{**task, "live": "/etc/a: mine\n… and 3 more lines", "declared": ""}], []).differences
    night.found = [(), written]
    night("drift", "lab", "--json")
    assert subjects(night("drift", "lab", "--json")) == ["baseline.listening /etc/b", "storage.Mount"]


def test_an_up_makes_nothing_good_that_differed_before_it(night: Night) -> None:
    night.found = [()] * 4
    night.states = [has(), has(tcp_4444="user 0"), has(tcp_4444="user 0", tcp_80="user 0"), has(tcp_80="user 0")]
    found = [subjects(night("drift", "lab", "--json")) for _ in range(2)]
    paths.applied("lab").write_text("another plan")
    found += [subjects(night("drift", "lab", "--json")) for _ in range(2)]
    assert found == [[], ["baseline.listening tcp 4444"], ["baseline.listening tcp 4444"], []]


def test_a_node_that_was_made_anew_is_compared_with_itself(night: Night) -> None:
    night.found = [()] * 2
    anew = {"worker0": {**has(tcp_80="user 0").nodes["worker0"], "node": {"life": "b"}}}
    night.states = [has(), BaselineStates(anew)]
    found = [subjects(night("drift", "lab", "--json"))]
    paths.applied("lab").write_text("the node was recreated")
    assert [*found, subjects(night("drift", "lab", "--json"))] == [[], []]


def test_machine_id_that_changed_without_an_up_differs_until_it_is_accepted(night: Night) -> None:
    night.found = [()] * 5
    changed = BaselineStates({"worker0": {**has(tcp_80="user 0").nodes["worker0"], "node": {"life": "bcdefghijk"}}})
    night.states = [has(), changed, changed, changed, changed]
    found = [subjects(night("drift", "lab", "--json")) for _ in range(2)]
    paths.applied("lab").write_text("another plan")
    found.append(subjects(night("drift", "lab", "--json")))
    both = ["baseline.listening tcp 80", "baseline.node machine-id"]
    assert found == [[], both, both]
    assert subjects(night("drift", "lab", "--json", "--update-baseline")) == []
    assert subjects(night("drift", "lab", "--json")) == []


def test_a_node_that_does_not_tell_what_it_has_is_unknown(night: Night) -> None:
    night.found, night.states = [()], [BaselineStates(unreachable=(("worker0", "packages could not be read"),))]
    assert night("drift", "lab").code == 3


def test_where_nobody_wants_it_compared_there_is_nothing_to_accept(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "policy", lambda file: DriftPolicy(host_baseline=False))
    said = night("drift", "lab", "--update-baseline")
    assert said.code == 2 and "host_baseline: false" in said.err


@pytest.mark.parametrize(("folder", "said"), [("metrics", ""), ("nowhere", "nowhere/rackwright-lab.prom: cannot write the metrics")])
def test_prometheus_reads_it_where_the_stack_file_says(night: Night, tmp_path: Path, monkeypatch: Any, folder: str, said: str) -> None:
    (tmp_path / "metrics").mkdir()
    monkeypatch.setattr(publication, "policy", lambda file: DriftPolicy(textfile_directory=str(tmp_path / folder)))
    night.found = [(STOPPED,)]
    ended = night("drift", "lab")
    assert ended.code == 1 and said in ended.err
    assert (tmp_path / folder / "rackwright-lab.prom").exists() is (said == "")


def verification(kind: str, plan: str) -> str:
    """A report of one check of that kind, one second long."""
    words = dict.fromkeys(("expected", "found", "remedy", "reason"), "")
    check = {"id": "jobs.run_on_every_node", "evidence": "real", "subject": "jobs", "node": "login0", "kind": kind, "verdict": "passed"}
    head = {"schema": "rackwright.report/1", "stack": "lab", "plan": plan, "level": "smoke", "started": "2026-11-23T02:00:00+00:00"}
    return json.dumps(
        {**head, "seconds": 1.0, "nodes": [], "checks": [{**check, **words, "seconds": 0.1}], "not_run": [], "verdict": "passed"}
    )


def test_what_only_jobs_prove_is_as_old_as_it_is(night: Night) -> None:
    night.found = [()]
    assert [one["when"] for one in json.loads(night("drift", "lab", "--json").out)["last_verified"]] == [None, None]
    for plan, when in (("1" * 12, None), ("0" * 12, "2026-11-23T02:00:01+00:00")):
        night.found = [()]
        paths.report_with_jobs("lab").write_text(verification("job", plan))
        told = json.loads(night("drift", "lab", "--json").out)["last_verified"][0]
        assert told == {"of": "jobs on every node", "verdict": "passed" if when else None, "when": when}


def test_sockets_of_a_simulated_fabric_open_and_shut_and_are_nobody_elses() -> None:
    told = {"listening": {"udp 0.0.0.0 7074": "user 0", "udp 0.0.0.0 7070": "user 0"}, "error": {"etc": "gone"}}
    assert without_transient(told, SIMULATED_FABRIC) == {"listening": {"udp 0.0.0.0 7070": "user 0"}}
    assert without_transient({"error": {"listening": "gone"}}, SIMULATED_FABRIC) == {}, "what could not be read proves nothing"


def test_the_simulated_fabrics_ports_are_those_of_its_role() -> None:
    role = load_yaml((paths.project_root() / "roles" / "fabric" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert SIMULATED_FABRIC[0] - 1 == role["fabric_simulated_port"] and len(SIMULATED_FABRIC) == 10
