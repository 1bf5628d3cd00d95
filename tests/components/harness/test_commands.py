"""The node's side of the checks: every probe has its own time-out, and the round has one, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from support.hang import ENDLESS_SECONDS, HANG_SECONDS, try_with_longer_limits, wait_until
from support.programs import FUTURE, edit_program

from rackwright.processes import start_time
from rackwright.remote import command


def answers(*questions, seconds=HANG_SECONDS, workers=4, slowness="1"):
    """Return the results of a round, by name."""
    request = {"seconds": seconds, "workers": workers, "questions": [list(question) for question in questions]}
    ended = subprocess.run(
        [sys.executable, *command.python_arguments("commands", request)[1:]],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        env={**os.environ, "RACKWRIGHT_SLOWNESS": slowness},
    )
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines[0].pop("slowness") >= 1.0
    assert ("speed" in lines[0]) is not bool(slowness)
    if speed := lines[0].pop("speed", None):
        assert speed["cpu_seconds"] > 0 and speed["seconds"] > 0 and speed["load"] >= 0 and speed["processors"] >= 1
    assert (lines[0], lines[-1]) == ({"begun": True}, {"end": True})
    return {line["name"]: line for line in lines[1:-1]}


def test_status_and_both_outputs_are_returned():
    found = answers(("both", "echo out; echo err >&2; exit 3", HANG_SECONDS))["both"]
    assert (found["rc"], found["out"], found["err"], found["error"]) == (3, "out\n", "err\n", "")


def test_missing_tool_has_status_127():
    assert answers(("none", "no-such-tool-here", HANG_SECONDS))["none"]["rc"] == 127


def test_hanging_probe_is_killed_with_its_children(tmp_path):
    def scene(factor):
        note = tmp_path / f"started-{factor}"
        hangs = f"sleep {ENDLESS_SECONDS} & echo $! > {note}; wait"
        found = answers(("hangs", hangs, 0.3 * factor), ("quick", "echo here", HANG_SECONDS))
        assert "no answer within" in found["hangs"]["error"]
        assert found["quick"]["out"] == "here\n"
        assert note.read_text().strip()
        wait_until(lambda: start_time(int(note.read_text())) is None)

    try_with_longer_limits(scene)


def test_round_ends_at_time_limit():
    found = answers(*((f"q{number}", f"sleep {ENDLESS_SECONDS}", HANG_SECONDS) for number in range(3)), seconds=0.3, workers=1)
    assert len(found) == 3
    assert all(answer["error"] for answer in found.values())


def test_undecodable_and_endless_output_is_bounded():
    found = answers(("binary", "printf '\\377\\376x'", HANG_SECONDS), ("long", "head -c 3000000 /dev/zero | tr '\\0' x", HANG_SECONDS))
    assert found["binary"]["out"].endswith("x")
    assert len(found["long"]["out"]) == 1000000


def test_probe_has_no_input():
    assert answers(("reads", "cat", HANG_SECONDS))["reads"]["out"] == ""


def test_slow_node_gets_more_time():
    """The same probe exceeds its time-out on a node of usual speed."""

    def scene(factor):
        question = ("sleeps", f"sleep {0.4 * factor}; echo done", 0.1 * factor)
        assert answers(question)["sleeps"]["out"] == ""
        assert answers(question, seconds=0.1 * factor, slowness="15")["sleeps"]["out"] == "done\n"

    try_with_longer_limits(scene)


def test_commands_receive_slowness_factor():
    assert answers(("factor", "echo $RACKWRIGHT_SLOWNESS", HANG_SECONDS), slowness="15")["factor"]["out"] == "15\n"


def test_slowness_is_measured_by_default():
    quick = answers(("factor", "echo $RACKWRIGHT_SLOWNESS", HANG_SECONDS), slowness="")["factor"]["out"]
    assert 1 <= int(quick) <= 15


def test_clock_step_takes_no_time_from_round(monkeypatch):
    """The clock steps an hour ahead at each reading."""
    stepping = "import itertools, time\nhours = itertools.count()\ntime.time = lambda: 3600.0 * next(hours)\n"
    edit_program(monkeypatch, "commands", lambda text: text.replace(FUTURE, FUTURE + stepping))
    request = {"seconds": 600, "workers": 1, "questions": [["quick", "echo here", 600], ["second", "echo too", 600]]}
    ended = subprocess.run(
        [sys.executable, *command.python_arguments("commands", request)[1:]],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["out"] for line in told if "name" in line] == ["here\n", "too\n"]
