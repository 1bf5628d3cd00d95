"""`rackwright hosts scan`: the machines compared with their declaration; keys are written only when an administrator confirms them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli
from support.rack import FACTS, FINGERPRINTS, NO_KEY, Preflight, fitting, stack_text

from rackwright.drivers.preflight import PreflightResult
from rackwright.operations.hosts import preflight_scan

STACK = stack_text("worker[0-1]: {address: 10.20.0.11, rack: r1}", "worker0: {label: node001}")


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Preflight:
    """The preflight of three machines; the workers' keys are not in the stack file yet."""
    rack = Preflight()
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(preflight_scan, "run_preflight", rack)
    return rack


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Their stack."""
    file = tmp_path / "Pulumi.rack.yaml"
    file.write_text(STACK)
    return file


@pytest.fixture
def scan(rack: Preflight, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Look at them."""

    def once(*more: str) -> CliResult:
        return run_cli(monkeypatch, capsys, "hosts", "scan", str(file), *more)

    return once


def answered(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """A person at a terminal, who types these words."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: words)


def test_each_machine_has_a_row_with_what_it_is_and_all_that_is_wrong_below(scan: Run, rack: Preflight, file: Path) -> None:
    rack.shown["worker1"] = fitting(
        "worker1", facts=replace(FACTS, cpus=4, memory_mib=8_000), problems=("has 4 CPUs, declared are 8", "has 8000 MiB")
    )
    ended = scan()
    rows = {line.split()[0]: line.split() for line in ended.out.splitlines() if line}
    assert rows["login0"][2:9] == ["203.0.113.9", "root", "debian-13", "8", "16000", "MiB", "0"] and rows["login0"][-1] == "yes"
    assert rows["worker0"][1:3] == ["node001,", "r1"] and FINGERPRINTS["worker0"] in rows["worker0"] and rows["worker0"][-1] == "no"
    assert "4 (8)" in ended.out and "8000 (16384) MiB" in ended.out
    assert f"worker0: {NO_KEY}\nworker1: has 4 CPUs, declared are 8\nworker1: has 8000 MiB\n" in ended.out
    assert ended.out.endswith("stack rack: 1 match, 2 differ\n")
    assert (ended.code, file.read_text()) == (1, STACK)


def test_machines_that_all_fit_are_exit_code_0_and_one_that_was_not_reached_3(scan: Run, rack: Preflight) -> None:
    rack.shown = {name: fitting(name) for name in FINGERPRINTS}
    assert scan().code == 0
    rack.shown["worker0"] = PreflightResult("worker0", problems=("no SSH server answers: timed out",))
    rack.shown["worker1"] = fitting("worker1", problems=("has 4 CPUs, declared are 8",))
    ended = scan()
    assert ended.code == 3 and "1 match, 1 differ, 1 unreachable" in ended.out


def test_they_are_asked_the_way_up_asks_them(scan: Run, rack: Preflight) -> None:
    scan()
    login, worker, _ = [asked.route for asked in rack.asked["requests"]]
    assert (login.address, login.user, login.host_key, worker.address, worker.host_key) == (
        "203.0.113.9",
        "root",
        FINGERPRINTS["login0"],
        "10.20.0.11",
        "",
    )
    assert rack.asked["via"] == login and rack.asked["adopted"] is False


def test_programs_get_everything(scan: Run) -> None:
    told = json.loads(scan("--json").out)
    assert told["totals"] == {"fit": 1, "do_not_fit": 2, "not_reached": 0, "out_and_not_looked_at": 0}
    worker = told["machines"][1]
    assert (worker["node"], worker["label"], worker["rack"], worker["fits"], worker["problems"]) == (
        "worker0",
        "node001",
        "r1",
        False,
        [NO_KEY],
    )
    assert worker["host_key"] == {"type": "ssh-ed25519", "fingerprint": FINGERPRINTS["worker0"], "confirmed": None}
    assert (worker["found"]["cpus"], worker["declared"]["cpus"]) == (8, 8)


def test_keys_that_a_person_compared_are_written_each_to_its_machine(scan: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, "yes")
    ended = scan("--write")
    assert ended.code == 0, ended.err
    assert f"  worker0: {FINGERPRINTS['worker0']} (ssh-ed25519)" in ended.err
    written = STACK.replace("{label: node001}", f'{{label: node001, host_key: "{FINGERPRINTS["worker0"]}"}}')
    line = f'        worker1: {{host_key: "{FINGERPRINTS["worker1"]}"}}\n'
    assert file.read_text() == written.replace("    verify_level:", f"{line}    verify_level:")


@pytest.mark.parametrize("words", ["no", "", "y"])
def test_anything_but_yes_writes_nothing(scan: Run, file: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    answered(monkeypatch, words)
    assert scan("--write").code == 1 and file.read_text() == STACK


def test_without_a_person_nothing_is_written(scan: Run, file: Path) -> None:
    ended = scan("--write")
    assert ended.code == 2 and "not a terminal: host keys must be confirmed by a person" in ended.err and file.read_text() == STACK


def test_yes_to_all_is_refused(scan: Run, file: Path) -> None:
    ended = scan("--write", "--yes")
    assert ended.code == 2 and "--yes: would accept unverified host keys" in ended.err and file.read_text() == STACK


def test_a_file_of_fingerprints_vouches_by_node_label_or_address(scan: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f"node001 {FINGERPRINTS['worker0']}\n10.20.0.12 {FINGERPRINTS['worker1']}\n")
    assert scan("--write", "--fingerprints", str(tmp_path / "f")).code == 0
    assert FINGERPRINTS["worker0"] in file.read_text() and FINGERPRINTS["worker1"] in file.read_text()


def test_a_machine_that_the_file_does_not_know_stays_without(scan: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f"worker0 {FINGERPRINTS['worker0']}\n")
    assert scan("--write", "--fingerprints", str(tmp_path / "f")).code == 1
    assert FINGERPRINTS["worker0"] in file.read_text() and FINGERPRINTS["worker1"] not in file.read_text()


def test_one_key_that_is_another_stops_them_all(scan: Run, file: Path, tmp_path: Path) -> None:
    """Another machine answers, or the list is of other machines: in both cases the command ends."""
    (tmp_path / "f").write_text(f"worker0 {FINGERPRINTS['worker0']}\nworker1 {FINGERPRINTS['login0']}\n")
    ended = scan("--write", "--fingerprints", str(tmp_path / "f"))
    assert ended.code == 1 and f"worker1: presents {FINGERPRINTS['worker1']}, which is not in f for this machine" in ended.err
    assert file.read_text() == STACK


def test_a_stack_with_other_errors_is_not_looked_at(scan: Run, file: Path, rack: Preflight) -> None:
    file.write_text(STACK.replace("jump_host: login0", "jump_host: login1"))
    ended = scan()
    assert ended.code == 2 and "there is no node `login1`" in ended.err and rack.asked == {}


def test_a_machine_that_is_out_is_left_alone(scan: Run, file: Path, rack: Preflight) -> None:
    file.write_text(STACK + "    nodes: {worker1: {state: out, reason: fan}}\n")
    assert "1 out (not scanned)" in scan().out
    assert [asked.route.name for asked in rack.asked["requests"]] == ["login0", "worker0"]
