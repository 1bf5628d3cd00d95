"""The program on the login node runs tests with limits, waits for an idle node, and ends with its standard input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_suite.source import PROGRAMS
from support.hang import ENDLESS_SECONDS, HANG_SECONDS, wait_until

LONG = ENDLESS_SECONDS
IDLE = "echo n1"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with an `expect` that runs shell scripts, and an idle node."""
    for name, text in {"expect": 'exec sh "$@"', "sinfo": IDLE}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "logs").mkdir()
    return tmp_path


def start(place: Path, scripts: dict[str, str], limit: float = LONG, **more: object) -> subprocess.Popen[str]:
    """Start the program with tests that are shell scripts."""
    for test, script in scripts.items():
        (place / f"test{test}").write_text(script, encoding="utf-8")
    order = {"folder": str(place), "logs": str(place / "logs"), "expect": str(place / "expect"), "workers": 2, "patience": LONG}
    child = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "run_tests.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": f"{place}:/usr/bin:/bin"},
    )
    assert child.stdin
    child.stdin.write(json.dumps({**order, "tests": dict.fromkeys(scripts, limit), **more}) + "\n")
    child.stdin.flush()
    return child


def rows(child: subprocess.Popen[str]) -> dict[str, dict[str, object]]:
    """Return the rows of all tests; standard input stays open until then."""
    assert child.stdout and child.stdin
    found = {row["test"]: row for row in map(json.loads, child.stdout)}
    child.stdin.close()
    assert child.wait(timeout=HANG_SECONDS) == 0
    return found


def test_status_and_log_of_each_test_are_returned(place: Path) -> None:
    found = rows(start(place, {"1.1": "echo good", "1.2": "echo bad >&2; exit 1", "1.3": "exit 255"}))
    assert {test: (row["status"], row["log"]) for test, row in found.items()} == {
        "1.1": (0, "good\n"),
        "1.2": (1, "bad\n"),
        "1.3": (255, ""),
    }


def test_test_is_ended_at_its_limit(place: Path) -> None:
    found = rows(start(place, {"1.1": f"echo begun; sleep {LONG}"}, limit=1))
    assert (found["1.1"]["status"], found["1.1"]["log"]) == (None, "begun\n")


def test_running_tests_end_with_standard_input(place: Path) -> None:
    child = start(place, {"1.1": f"echo $$ > {place}/pid; exec sleep {LONG}", "1.2": f"sleep {LONG}", "1.3": "echo never"})
    wait_until(lambda: (place / "pid").exists() and bool((place / "pid").read_text()), lambda: "the test did not start")
    assert child.stdin
    child.stdin.close()
    assert child.wait(timeout=HANG_SECONDS) == 0
    assert not Path("/proc", (place / "pid").read_text().strip()).exists()
    assert not (place / "logs/1.3.log").exists() or (place / "logs/1.3.log").read_text() == ""


def test_test_waits_for_an_idle_node(place: Path) -> None:
    (place / "sinfo").write_text(f"#!/bin/sh\necho asked >> {place}/asked\nif [ -e {place}/free ]; then {IDLE}; fi\n", encoding="utf-8")
    child = start(place, {"1.1": "echo good"})
    wait_until((place / "asked").exists, lambda: "the program did not ask for idle nodes")
    assert not (place / "logs/1.1.log").exists()
    (place / "free").touch()
    assert rows(child)["1.1"]["status"] == 0


def test_test_without_an_idle_node_is_tried_again(place: Path) -> None:
    script = f"""
        if [ -e {place}/second ]; then echo good; exit 0; fi
        touch {place}/second; echo "The expect testsuite requires there to be at least one idle node in the default partition."; exit 255"""
    assert rows(start(place, {"1.1": script}))["1.1"]["log"] == "good\n"


def test_no_idle_node_until_the_end_is_reported(place: Path) -> None:
    script = 'echo "it requires there to be at least one idle node"; exit 255'
    assert rows(start(place, {"1.1": script}, patience=0))["1.1"]["status"] == 255


def test_only_the_end_of_a_log_is_returned(place: Path) -> None:
    found = rows(start(place, {"1.1": "yes | head -c 200000; echo end"}))
    log = str(found["1.1"]["log"])
    assert len(log) == 65536 and log.endswith("end\n")
