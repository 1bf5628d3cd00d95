"""The live fabric against the cable list: whatever is done to a cable is named, by both its ends, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright.report.fabric_diff import Difference, End, Kind, Live, differences, ends, read

FOLDER = Path(__file__).parents[1] / "captured" / "fabric-links"
TEXT = (FOLDER / "good.txt").read_text(encoding="utf-8")
REAL_FORM = (FOLDER / "real-form.txt").read_text(encoding="utf-8")
"""The same fabric as managed QM9700 print it: each has an aggregation node at port 65, and all of those have one name."""
ROWS = ("worker0/mlx5_1:1 leaf-su1-r1:1", "worker0/mlx5_3:1 leaf-su1-r3:1", "leaf-su1-r1:9 spine-01:2", "leaf-su1-r3:9 spine-01:4")
NDR = "4x NDR"
calm = settings(derandomize=True)


def live(rows, rates=None):
    """A fabric that is wired like this."""
    far = {}
    for row in rows:
        near, other = ends(row)
        far |= {near: other, other: near}
    return Live(far, {end: (rates or {}).get(str(end), NDR) for end in far}, frozenset())


def told(rows, fabric, rate=""):
    return [str(one) for one in differences(rows, fabric, rate)]


def test_what_was_planned_is_found():
    seen = read(TEXT)
    assert seen.switches == {"leaf-su1-r1", "leaf-su1-r3", "spine-01"}
    assert differences(ROWS, seen, NDR) == ()


def test_a_switch_that_is_managed_is_known_by_its_host_name():
    assert differences(ROWS, read(TEXT.replace("'spine-01'", "'MF0;spine-01:MQM9700/U1'")), NDR) == ()


def test_what_switches_have_within_themselves_is_no_cable():
    """Whether the fabric has three such switches or one."""
    assert read(REAL_FORM).far == read(TEXT).far
    assert differences(ROWS, read(REAL_FORM), NDR) == ()
    alone = "".join(line for line in REAL_FORM.splitlines(True) if "Aggregation" not in line or "leaf-su1-r1" in line)
    assert differences(ROWS, read(alone), NDR) == ()


def test_an_unplugged_cable_is_named_by_both_ends():
    assert told(ROWS, live(ROWS[1:])) == ["worker0/mlx5_1:1 - leaf-su1-r1:1 is missing"]


def test_cables_that_changed_places_are_named_with_where_they_are():
    swapped = live(("worker0/mlx5_1:1 leaf-su1-r3:1", "worker0/mlx5_3:1 leaf-su1-r1:1", *ROWS[2:]))
    assert told(ROWS, swapped) == [
        "worker0/mlx5_1:1 is connected to leaf-su1-r3:1 (expected leaf-su1-r1:1)",
        "worker0/mlx5_3:1 is connected to leaf-su1-r1:1 (expected leaf-su1-r3:1)",
    ]


def test_a_port_that_somebody_else_took():
    (one,) = differences(ROWS, live(("stranger/mlx5_0:1 leaf-su1-r1:1", *ROWS[1:])))
    assert str(one) == "leaf-su1-r1:1 is connected to stranger/mlx5_0:1 (expected worker0/mlx5_1:1)"
    assert one.node == "worker0"


def test_a_cable_that_nobody_planned():
    (one,) = differences(ROWS, live((*ROWS, "leaf-su1-r1:60 worker9/mlx5_0:1")))
    assert str(one) == "worker9/mlx5_0:1 - leaf-su1-r1:60 is not planned"


def test_a_slow_link_is_one_where_a_rate_is_asked_for():
    slow = live(ROWS, {"leaf-su1-r1:9": "2x HDR"})
    assert told(ROWS, slow, NDR) == ["leaf-su1-r1:9 - spine-01:2 runs at 2x HDR"]
    assert told(ROWS, slow) == []


def test_a_cable_between_switches_is_no_nodes():
    assert [one.node for one in differences(ROWS, live(ROWS[:3]))] == [None]


@pytest.mark.parametrize("text", ["", "words\n", TEXT[: TEXT.index("SW     2  4")], TEXT.replace("4x NDR - SW", "4x NDR ? SW", 1)])
def test_what_is_no_whole_answer_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read(text)


@calm
@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_every_cable_that_is_touched_is_named_and_no_other(nodes, rails, data):
    rows = [f"worker{node}/mlx5_{rail}:1 leaf-r{rail}:{node + 1}" for node in range(nodes) for rail in range(rails)]
    gone = data.draw(st.sets(st.sampled_from(rows)))
    found = differences(rows, live([row for row in rows if row not in gone]))
    assert {f"{one.end} {one.planned}" for one in found} == gone
    assert {one.kind for one in found} <= {Kind.MISSING}
    others = data.draw(st.permutations(range(len(rows))))
    swapped = [f"{row.split()[0]} {rows[other].split()[1]}" for row, other in zip(rows, others, strict=True)]
    moved = differences(rows, live(swapped))
    assert [str(one.end) for one in moved] == [row.split()[0] for row, now in zip(rows, swapped, strict=True) if row != now]
    assert all(isinstance(one, Difference) and one.kind is Kind.MOVED and isinstance(one.found, End) for one in moved)
