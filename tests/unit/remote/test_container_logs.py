"""Logs of containers: the format of CRI with its parts, rotated files, earlier starts, and Docker's format."""

from __future__ import annotations

import doctest
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rackwright.remote.programs import container_logs, log_files

BEGIN = 1795795200
"""2026-11-27T16:00:00Z."""


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(container_logs, "PODS", str(tmp_path))
    monkeypatch.setattr(signal, "alarm", lambda seconds: 0)
    return tmp_path


def write(pods: Path, pod: str, name: str, *lines: str, namespace: str = "ml", container: str = "main") -> None:
    folder = pods / f"{namespace}_{pod}_0a1b" / container
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def ask(pod: str = "train-0", **more: Any) -> dict[str, Any]:
    whole = {
        "now": time.time(),
        "since": BEGIN,
        "until": None,
        "lines": 100,
        "bytes": 1 << 20,
        "seconds": 20.0,
        "rules": [],
        "priority": None,
    }
    found: dict[str, Any] = container_logs.main({**whole, "namespace": "ml", "pod": pod, **more})
    return found


def messages(answer: dict[str, Any]) -> list[str]:
    return [entry[4] for entry in answer["entries"]]


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(container_logs).failed == 0


def test_examples_in_docstrings_of_log_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert doctest.testmod(log_files).failed == 0


def test_lines_of_containers_are_entries(pods: Path) -> None:
    write(pods, "train-0", "0.log", "2026-11-27T16:00:01.123456789Z stdout F one", "2026-11-27T16:00:02Z stderr F level=error two")
    write(pods, "train-0", "0.log", "2026-11-27T16:00:01.5Z stdout F side", container="sidecar")
    write(pods, "train-1", "0.log", "2026-11-27T16:00:01Z stdout F other")
    answer = ask()
    assert [entry[:3] for entry in answer["entries"]] == [
        [BEGIN * 1000000 + 1123456, "ml/train-0/main", 6],
        [BEGIN * 1000000 + 1500000, "ml/train-0/sidecar", 6],
        [BEGIN * 1000000 + 2000000, "ml/train-0/main", 3],
    ]
    assert answer["known"] == {"train-0": True, "train-1": False}


def test_parts_of_a_line_are_one_entry(pods: Path) -> None:
    """The streams write in between, and the last part may not be there yet."""
    lines = (
        "2026-11-27T16:00:01Z stdout P a1 ",
        "2026-11-27T16:00:02Z stderr P b1 ",
        "2026-11-27T16:00:03Z stdout P a2 ",
        "2026-11-27T16:00:04Z stderr F b2",
        "2026-11-27T16:00:05Z stdout F a3",
        "2026-11-27T16:00:06Z stdout F alone",
        "2026-11-27T16:00:07Z stdout P open",
    )
    write(pods, "train-0", "0.log", *lines)
    assert messages(ask()) == ["a1 a2 a3", "b1 b2", "alone", "open"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2026-11-27T16:00:01Z stdout F", [""]),
        ("2026-11-27T16:00:01Z stdout F ", [""]),
        ("2026-11-27T17:00:01+01:00 stdout F zone", ["zone"]),
        ("2026-11-27T16:00:01Z stdout F:tag tagged", ["tagged"]),
        ("2026-11-27T16:00:01Z stdout F P not a part", ["P not a part"]),
        ("2026-11-27T16:00:01Z stdout F \udcff bytes", ["\ufffd bytes"]),
        ('{"log":"docker\\n","stream":"stdout","time":"2026-11-27T16:00:01.5Z"}', ["docker"]),
        ('{"log":"torn', []),
        ('{"log":"no time\\n"}', []),
        ("2026-11-27T16:00:01Z", []),
        ("2026-99-27T16:00:01Z stdout F x", []),
        ("\x00\x00\x00", []),
    ],
)
def test_form_of_a_line(pods: Path, line: str, message: list[str]) -> None:
    write(pods, "train-0", "0.log", line)
    assert messages(ask()) == message


def test_earlier_starts_and_rotated_files_are_read(pods: Path) -> None:
    write(pods, "train-0", "0.log", "2026-11-27T16:00:01Z stdout F first start")
    write(pods, "train-0", "1.log.20261127-160003", "2026-11-27T16:00:02Z stdout F rotated")
    write(pods, "train-0", "1.log", "2026-11-27T16:00:03Z stdout F second start")
    write(pods, "train-0", "1.log.20261127-160002.gz", "not read")
    assert messages(ask()) == ["first start", "rotated", "second start"]


def test_limits_and_window(pods: Path) -> None:
    write(pods, "train-0", "0.log", *(f"2026-11-27T16:00:{second:02d}Z stdout F {second}" for second in range(60)))
    assert messages(ask(since=BEGIN + 57)) == ["57", "58", "59"]
    assert messages(ask(until=BEGIN + 1)) == ["0", "1"]
    limited = ask(lines=2)
    assert (messages(limited), limited["cut"]) == (["58", "59"], "lines")
    assert messages(ask(rules=[["main$", "^7$"]])) == ["7"]


def test_patterns_mean_several_pods(pods: Path) -> None:
    for pod in ("train-0", "train-1", "serve-0"):
        write(pods, pod, "0.log", f"2026-11-27T16:00:01Z stdout F {pod}")
    assert messages(ask("train-*")) == ["train-0", "train-1"]


def test_node_without_pods_has_none(pods: Path) -> None:
    answer = ask()
    assert (answer["entries"], answer["known"]) == ([], {})
