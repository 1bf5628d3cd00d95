"""The program that reads a node's journal, with the real journalctl on a journal of 16 entries, and with outputs of other releases."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackwright.remote.programs import journal, journal_follow, log_files

BEGIN = 1795795200
"""Time of the first entry, 2026-11-27T16:00:00Z; each has the second that its number in the journal suggests."""
JOURNAL = Path(__file__).with_name("journals") / "worker0.journal.xz"
Ask = Callable[..., dict[str, Any]]


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that a node finds before its own, and a node without log files."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("PATH", "LC_ALL"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(journal, "PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setattr(signal, "alarm", lambda seconds: 0)
    monkeypatch.setattr(log_files, "SLURM_FOLDERS", (str(tmp_path / "slurm"),))
    monkeypatch.setattr(log_files, "MARIADB", ())
    return place


@pytest.fixture
def ask(folder: Path) -> Ask:
    def once(**request: Any) -> dict[str, Any]:
        whole = {"now": time.time(), "since": BEGIN, "until": None, "lines": 1000, "bytes": 1 << 20, "seconds": 20.0, "files": True}
        found: dict[str, Any] = journal.main({**whole, "units": [], "rules": [], "priority": None, **request})
        return found

    return once


@pytest.fixture
def real(folder: Path, tmp_path: Path) -> Path:
    """The journal, read by this machine's journalctl."""
    installed = shutil.which("journalctl")
    if installed is None:
        pytest.skip("journalctl is not installed here; the tests with recorded outputs cover the parser")
    file = tmp_path / "worker0.journal"
    file.write_bytes(lzma.decompress(JOURNAL.read_bytes()))
    program(folder, "journalctl", f'case "$1" in --version) exec {installed} --version ;; esac\nexec {installed} --file={file} "$@"')
    return file


def seconds(answer: dict[str, Any]) -> list[int]:
    return [entry[0] // 1000000 - BEGIN for entry in answer["entries"]]


def test_entries_are_in_order_with_unit_and_priority(real: Path, ask: Ask) -> None:
    answer = ask()
    assert [(second, entry[1], entry[2]) for second, entry in zip(seconds(answer), answer["entries"], strict=True)] == [
        (0, "kernel", 5),
        (1, "slurmd", 6),
        (2, "slurmd", 6),
        (10, "slurmd", 6),
        (11, "slurmd", 3),
        (12, "munge", 6),
        (13, "munge", 6),
        (14, "munge", 6),
        (15, "slurmstepd", 3),
        (16, "kernel", 4),
        (17, "sudo", 5),
        (18, "ssh", 6),
        (19, "kubelet", 3),
        (20, "containerd", 4),
        (21, "slurmd", 6),
        (22, "slurmd", 4),
    ]
    assert (answer["cut"], answer["begins"], answer["warnings"], answer["notes"]) == ("", BEGIN * 1000000, [], [])


def test_messages_of_every_kind_are_text(real: Path, ask: Ask) -> None:
    """Bytes that are no UTF-8, line feeds, fields over 4 KiB and repeated fields."""
    found = {second: entry[4] for second, entry in zip(seconds(ask()), ask()["entries"], strict=True)}
    assert found[12] == "not UTF-8: \ufffd\ufffd and a bell \x07"
    assert found[13] == "two\nlines"
    assert found[14] == "x" * 9000
    assert sorted(found[18].split("\n")) == ["first of two", "second of two"]
    assert found[21] == ""


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"units": ["munge"]}, [12, 13, 14]),
        ({"units": ["slurmd"]}, [1, 2, 10, 11, 15, 21, 22]),
        ({"units": ["kernel"]}, [0, 16]),
        ({"units": ["kernel", "nosuch"]}, [0, 16]),
        ({"units": ["kube*", "con*"]}, [19, 20]),
        ({"units": ["nosuch"]}, []),
        ({"priority": 3}, [11, 15, 19]),
        ({"priority": 4, "units": ["slurmd"]}, [11, 15, 22]),
        ({"since": BEGIN + 19.5, "until": BEGIN + 21}, [20, 21]),
        ({"since": None, "until": BEGIN + 1.5}, [0, 1]),
        ({"lines": 2}, [21, 22]),
        ({"rules": [["", "(?i:oom_kill)"]]}, [15]),
        ({"rules": [["^kernel$", "Xid"], ["", "StepId=5"]]}, [10, 15, 16]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_selection(real: Path, ask: Ask, request_: dict[str, Any], expected: list[int]) -> None:
    assert seconds(ask(**request_)) == expected


def test_unknown_units_are_named_with_those_that_exist(real: Path, ask: Ask) -> None:
    answer = ask(units=["munge", "nosuch"])
    assert answer["known"] == {"munge": True, "nosuch": False}
    assert answer["seen"] == ["containerd", "kubelet", "munge", "slurmd", "ssh"]


def test_limits_are_named(real: Path, ask: Ask) -> None:
    assert ask(lines=2)["cut"] == "lines"
    assert ask(bytes=8000)["cut"] == "bytes"
    late = ask(seconds=-1.0)
    assert (late["cut"], late["entries"]) == ("time", [])


def test_window_is_widened_by_a_clock_that_differs(real: Path, ask: Ask) -> None:
    """The caller's clock is an hour ahead of this node's: what it calls 17:00:16 is 16:00:16 here, and some seconds more are read."""
    ahead = time.time() + 3600
    found = seconds(ask(now=ahead, since=BEGIN + 3616))
    assert 16 in found and 2 not in found


def test_truncated_journal_is_reported(real: Path, ask: Ask) -> None:
    real.write_bytes(real.read_bytes()[:4096])
    said = subprocess.run(["journalctl", f"--file={real}"], capture_output=True, text=True, check=False)
    if said.returncode:
        with pytest.raises(SystemExit, match="journalctl: "):
            ask()
    else:
        assert ask()["warnings"], "a journal that is lost reads as one without entries"


def test_missing_journalctl_is_the_reason(folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "PATH", str(folder))
    with pytest.raises(SystemExit, match="journalctl is not installed"):
        ask()


def test_followed_entries_are_passed_on(real: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The last entries of the journal, which no process extends, then its end by a signal; without entries, null."""
    monkeypatch.setattr(journal_follow, "PATH", journal.PATH)
    monkeypatch.setattr(journal_follow, "PULSE", 0.2)
    children: list[subprocess.Popen[bytes]] = []
    pass_on, emit = journal_follow.pass_on, journal_follow.emit

    def end_at_pulse(value: Any) -> None:
        emit(value)
        if value is None:
            children[0].kill()

    def remember(child: subprocess.Popen[bytes], wanted: Any) -> None:
        children.append(child)
        pass_on(child, wanted)

    monkeypatch.setattr(journal_follow, "emit", end_at_pulse)
    monkeypatch.setattr(journal_follow, "pass_on", remember)
    with pytest.raises(SystemExit, match="journalctl ended with status -9"):
        journal_follow.main({"units": ["kernel", "munge"], "rules": [], "priority": 4, "lines": 20})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0], lines[-1]) == ({"files": []}, None)
    assert [entry[1] for entry in lines if isinstance(entry, list)] == ["kernel"]


OLD = '{ "__REALTIME_TIMESTAMP" : "1795795201000000", "MESSAGE" : "old release", "_SYSTEMD_UNIT" : "crond.service", "PRIORITY" : "6" }'


def test_release_without_output_fields_is_read(folder: Path, ask: Ask) -> None:
    """systemd 219 refuses the option."""
    refuse = 'case "$*" in *output-fields*) echo "journalctl: unrecognized option" >&2; exit 1 ;; esac'
    program(
        folder, "journalctl", f"case $1 in --version) echo 'systemd 219'; exit ;; esac\n{refuse}\necho '{OLD}'\necho 'no json'\necho '{{}}'"
    )
    assert [entry[1:] for entry in ask()["entries"]] == [["crond", 6, None, "old release"]]


def test_failing_journalctl_is_the_reason(folder: Path, ask: Ask) -> None:
    program(folder, "journalctl", "case $1 in --version) echo 'systemd 252 (252)'; exit ;; esac\necho 'Failed to open files' >&2; exit 1")
    with pytest.raises(SystemExit, match=r"^journalctl: Failed to open files\Z"):
        ask()


def test_warnings_of_journalctl_are_passed_on(folder: Path, ask: Ask) -> None:
    program(
        folder,
        "journalctl",
        "case $1 in --version) echo 'systemd 257 (257.13)'; exit ;; esac\n"
        f"echo 'Journal file x.journal corrupted, ignoring file.' >&2\necho '{OLD}'",
    )
    answer = ask()
    assert (answer["warnings"], len(answer["entries"])) == (["Journal file x.journal corrupted, ignoring file."], 1)


@pytest.fixture
def slurm_log(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A slurmctld that logs to a file, and a journal without entries."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    program(folder, "journalctl", "case $1 in --version) echo 'systemd 252 (252)'; exit ;; esac")
    program(folder, "systemctl", "exit 0")
    log = tmp_path / "slurmctld.log"
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "slurm.conf").write_text(f"ClusterName=x\nSlurmctldLogFile = {log}  # a comment\nJobCompPass=secret\n")
    return log


def test_log_file_of_slurm_is_read(slurm_log: Path, ask: Ask) -> None:
    slurm_log.write_text(
        "[2026-11-27T15:59:59.000] before\n"
        "[2026-11-27T16:00:01.250] sched: Allocate JobId=5\n"
        "[2026-11-27T16:00:02] error: Nodes worker1 not responding\n"
        "a second line of it\n"
        "[2026-11-27T17:00:03.000+01:00] with a zone\n"
    )
    assert [entry[:3] + entry[4:] for entry in ask()["entries"]] == [
        [(BEGIN + 1) * 1000000 + 250000, "slurmctld", 6, "sched: Allocate JobId=5"],
        [(BEGIN + 2) * 1000000, "slurmctld", 3, "error: Nodes worker1 not responding\na second line of it"],
        [(BEGIN + 3) * 1000000, "slurmctld", 6, "with a zone"],
    ]
    assert ask(units=["munge"])["entries"] == []
    assert seconds(ask(units=["slurmctld"], priority=3)) == [2]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("[Fri Nov 27 16:00:01 2026] x\n", "whose lines have no date that can be read"),
        ("1795795201 x\n", "whose lines have no date that can be read"),
    ],
)
def test_log_file_with_unknown_dates_is_named(slurm_log: Path, ask: Ask, text: str, note: str) -> None:
    slurm_log.write_text(text)
    assert note in ask()["notes"][0]


def test_rotated_log_file_is_named(slurm_log: Path, ask: Ask) -> None:
    slurm_log.write_text("[2026-11-27T16:00:01.250] x\n")
    slurm_log.with_name("slurmctld.log.1").write_text("")
    answer = ask()
    assert (len(answer["entries"]), "earlier lines are in" in answer["notes"][0]) == (1, True)


def test_long_log_file_is_read_from_its_end(slurm_log: Path, ask: Ask) -> None:
    line = "[2026-11-27T16:00:%02d.000] %s\n"
    slurm_log.write_text("".join(line % (second, "y" * 5000) for second in range(60) for _ in range(4)))
    answer = ask(lines=6)
    assert (answer["cut"], seconds(answer)) == ("lines", [58, 58, 59, 59, 59, 59])
