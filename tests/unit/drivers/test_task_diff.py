"""What a task found and what it would put there, as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.drivers.task_diff import sides, truncate_lines


def diff(before: Any, after: Any, path: str = "/etc/x") -> dict[str, Any]:
    return {"diff": [{"before_header": path, "after_header": path, "before": before, "after": after}]}


@pytest.mark.parametrize(
    ("result", "live", "declared"),
    [
        (diff("a\nb 7\nc\n", "a\nb 8\nc\n"), "/etc/x: b 7", "/etc/x: b 8"),
        (diff("a\nmine\n", "a\n"), "/etc/x: mine", "/etc/x: without it"),
        (diff("a\n", "a\nb\n  c\n"), "/etc/x: without it", "/etc/x: b\n    c"),
        (diff("0644 0:0\n", "0600 0:0\n"), "/etc/x: 0644 0:0", "/etc/x: 0600 0:0"),
        (diff("", "a\nb\n"), "/etc/x: nothing", ""),
        (diff("absent\n", "directory 0755 0:0\n"), "/etc/x: nothing", ""),
        (diff({"mode": "0644", "path": "/etc/x"}, {"mode": "0600", "path": "/etc/x"}), "/etc/x: mode: 0644", "/etc/x: mode: 0600"),
        (diff("a" * 60_000, "b"), "/etc/x: differs", ""),
        ({"diff": {"prepared": "md0: made\nmd1: made\n"}}, "md0: made\nmd1: made", ""),
        ({"changed": True}, "", ""),
    ],
)
def test_the_lines_that_differ_stand_beside_each_other(result: dict[str, Any], live: str, declared: str) -> None:
    assert sides(result) == (live, declared)


def test_a_unit_says_how_it_is_and_not_what_would_be_done() -> None:
    action = {"unit": "munge.service", "action": "start", "reason": "the unit is inactive (dead)"}
    result = {"actions": [action], "diff": [{"prepared": "munge.service: start, because the unit is inactive (dead)\n"}]}
    assert sides(result) == ("munge.service: the unit is inactive (dead)", "")


def test_a_program_says_it_in_its_own_words_where_nothing_else_is_told() -> None:
    assert sides({"cmd": ["look"], "stdout": "worker0: drained"}) == ("worker0: drained", "")


def test_items_of_a_loop_are_told_where_they_would_change() -> None:
    items = [{**diff("a 1\n", "a 2\n", f"/etc/{name}"), "changed": changed} for name, changed in (("x", True), ("y", False), ("z", True))]
    assert sides({"changed": True, "results": items}) == ("/etc/x: a 1\n/etc/z: a 1", "/etc/x: a 2\n/etc/z: a 2")


def test_much_is_cut() -> None:
    live, declared = sides(diff("".join(f"{number}\n" for number in range(40)), "x" * 500))
    assert live.splitlines()[-1] == "… and 34 more lines" and len(live.splitlines()) == 7
    assert truncate_lines(declared).endswith("…") and len(truncate_lines(declared)) < 200
    assert sides(diff("a\n", "x" * 5_000))[1] == "(a line too long to show)"
