"""`rackwright drift-schedule`: what it installs, what it prints, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.cli import down as down_command
from rackwright.cli import main
from rackwright.inventory import paths
from rackwright.operations import destroy_by_label
from rackwright.operations.drift import systemd_timer

TIMERS = ["rackwright-drift-lab.timer", "rackwright-drift-lab-overdue.timer"]
Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    paths.prepare("lab")
    paths.inventory("lab").touch()

    def command(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["rackwright", "drift-schedule", *words])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *capsys.readouterr())

    return command


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A machine with systemd, and the commands that it received."""
    told: list[list[str]] = []

    def call(command: list[str], **_: Any) -> SimpleNamespace:
        told.append([word for word in command[1:] if word != "--user"])
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(systemd_timer, "_BOOTED", tmp_path)
    monkeypatch.setattr(systemd_timer, "unit_folder", lambda: tmp_path / "units")
    monkeypatch.setattr(systemd_timer.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", call)
    return told


def test_a_timer_is_installed_and_goes_again(run: Run, systemd: list[list[str]], tmp_path: Path) -> None:
    code, said, _ = run("lab", "--at", "4:30", "--jitter", "0")
    assert code == 0 and "04:30" in said
    assert systemd == [["daemon-reload"], ["enable", "--now", *TIMERS]]
    assert "OnCalendar=*-*-* 04:30:00" in (tmp_path / "units" / "rackwright-drift-lab.timer").read_text()
    assert run("lab", "--remove")[0] == 0
    assert systemd[2:] == [["disable", "--now", *TIMERS], ["daemon-reload"]]
    assert list((tmp_path / "units").iterdir()) == []
    assert "no timer of lab is installed" in run("lab", "--remove")[1]


def test_the_timer_of_a_stack_that_is_gone_can_be_taken_away(run: Run, systemd: list[list[str]], tmp_path: Path) -> None:
    run("lab")
    paths.inventory("lab").unlink()
    assert run("lab", "--remove")[0] == 0 and list((tmp_path / "units").iterdir()) == []


def test_a_stack_that_goes_names_the_timer_that_stays(
    run: Run, systemd: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(destroy_by_label, "sweep_lab", lambda stack: [])
    run("lab")

    def down(stack: str) -> str:
        down_command.down(stack, by_label=True)
        return capsys.readouterr().err

    assert "`rackwright drift-schedule lab --remove`" in down("lab")
    assert down("other") == ""
    run("lab", "--remove")
    assert down("lab") == ""


def test_the_timer_looks_in_the_home_that_was_chosen(run: Run, systemd: list[list[str]], tmp_path: Path) -> None:
    run("lab")
    assert f'"RACKWRIGHT_HOME={tmp_path}/home"' in (tmp_path / "units" / "rackwright-drift-lab.service").read_text()


def test_a_dry_run_prints_the_units_and_installs_none(run: Run, systemd: list[list[str]]) -> None:
    code, said, _ = run("lab", "--dry-run")
    assert code == 0 and "[Timer]" in said and systemd == []


def test_where_systemd_does_not_run_the_other_ways_are_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(systemd_timer, "_BOOTED", tmp_path / "nowhere")
    code, _, told = run("lab")
    assert code == 2 and "--using cron" in told


@pytest.mark.parametrize(
    ("words", "named"), [(("--at", "25:00"), "--at"), (("--jitter", "15 min"), "--jitter"), (("--using", "at"), "--using")]
)
def test_what_is_no_time_is_refused(run: Run, words: tuple[str, ...], named: str) -> None:
    code, _, told = run("lab", *words)
    assert code == 2 and named in told


def test_a_stack_that_is_not_up_is_refused(run: Run) -> None:
    assert run("dev")[0] == 2
