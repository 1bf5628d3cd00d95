"""What runs on a node: every question has its own time, and the round has one too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import cluster

SOURCE = (Path(cluster.__file__).parent / "harness" / "node_side.py").read_text(encoding="utf-8")


def answers(*questions, seconds=5, hands=4, slowness="1"):
    """What a round comes back with, by name."""
    request = {"seconds": seconds, "hands": hands, "questions": [list(question) for question in questions]}
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SOURCE, json.dumps(request)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "RACKWRIGHT_SLOWNESS": slowness},
    )
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines[0].pop("slowness") >= 1.0
    assert (lines[0], lines[-1]) == ({"begun": True}, {"end": True})
    return {line["name"]: line for line in lines[1:-1]}


def test_status_and_both_outputs_come_back():
    found = answers(("both", "echo out; echo err >&2; exit 3", 5))["both"]
    assert (found["rc"], found["out"], found["err"], found["trouble"]) == (3, "out\n", "err\n", "")


def test_a_tool_that_is_missing_is_status_127():
    assert answers(("none", "no-such-tool-here", 5))["none"]["rc"] == 127


def test_a_question_that_hangs_is_ended_with_all_it_started():
    started = time.monotonic()
    found = answers(("hangs", "sleep 60 & sleep 60; wait", 0.5), ("quick", "echo here", 5))
    assert "no answer within" in found["hangs"]["trouble"]
    assert found["quick"]["out"] == "here\n"
    assert time.monotonic() - started < 20


def test_the_round_ends_in_its_time():
    found = answers(*((f"q{number}", "sleep 60", 30) for number in range(3)), seconds=1, hands=1)
    assert len(found) == 3
    assert all(answer["trouble"] for answer in found.values())


def test_output_without_an_encoding_and_without_an_end():
    found = answers(("binary", "printf '\\377\\376x'", 5), ("long", "head -c 3000000 /dev/zero | tr '\\0' x", 5))
    assert found["binary"]["out"].endswith("x")
    assert len(found["long"]["out"]) == 1000000


def test_nothing_waits_for_input():
    assert answers(("reads", "cat", 5))["reads"]["out"] == ""


def test_slow_node_gets_more_time():
    """The same question has no answer in time on a node of usual speed."""
    question = ("sleeps", "sleep 1; echo done", 0.2)
    assert answers(question)["sleeps"]["out"] == ""
    assert answers(question, seconds=0.3, slowness="15")["sleeps"]["out"] == "done\n"


def test_commands_are_told_the_factor():
    assert answers(("factor", "echo $RACKWRIGHT_SLOWNESS", 5), slowness="15")["factor"]["out"] == "15\n"


def test_slowness_is_measured_where_nobody_says_it():
    quick = answers(("factor", "echo $RACKWRIGHT_SLOWNESS", 5), slowness="")["factor"]["out"]
    assert 1 <= int(quick) <= 15


def test_clock_step_takes_no_time_from_round():
    """The clock steps an hour ahead whenever the node reads it."""
    stepping = "import itertools, time\nhours = itertools.count()\ntime.time = lambda: 3600.0 * next(hours)\n"
    request = {"seconds": 5, "hands": 1, "questions": [["quick", "echo here", 5], ["second", "echo too", 5]]}
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", stepping + SOURCE, json.dumps(request)], capture_output=True, text=True, check=True, timeout=30
    )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["out"] for line in told if "name" in line] == ["here\n", "too\n"]
