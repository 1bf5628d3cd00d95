"""The live fabric compared with the cable list: every change of a cable is named by both ends, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fabric_text import adapter, link, switch, unused

from rackwright.report.fabric.comparison import Difference, Kind, compare
from rackwright.report.fabric.device_names import CableEnd
from rackwright.report.fabric.ibnetdiscover import read_links

FOLDER = Path(__file__).parents[1] / "captured" / "fabric-links"
TEXT = (FOLDER / "good.txt").read_text(encoding="utf-8")
REAL_FORM = (FOLDER / "real-form.txt").read_text(encoding="utf-8")
"""The same fabric as managed QM9700 print it: each has an aggregation node at port 65, and all of those have one name."""
ROWS = ("worker0/mlx5_1:1 leaf-su1-r1:1", "worker0/mlx5_3:1 leaf-su1-r3:1", "leaf-su1-r1:9 spine-01:2", "leaf-su1-r3:9 spine-01:4")
NDR = "4x NDR"
calm = settings(derandomize=True)


def discovered(rows, rates=None):
    """Return the output of tools for a fabric with this cabling, all devices named as in the plan."""
    names = sorted({word.rpartition(":")[0] for row in rows for word in row.split()})
    guids = {name: 0xB8CE_F600_0000_0000 + 0x10 * number for number, name in enumerate(names)}
    text = ""
    for row in rows:
        (one, port), (other, other_port) = ((word.rpartition(":")[0], int(word.rpartition(":")[2])) for word in row.split())
        devices = [adapter(guids[name], name.replace("/", " ")) if "/" in name else switch(guids[name], name) for name in (one, other)]
        text += link(devices[0], port, devices[1], other_port, (rates or {}).get(f"{one}:{port}", NDR))
    return read_links(text)


def differences(rows, links, rate=""):
    compared = compare(rows, links, rate=rate)
    assert compared.unknown == ()
    return compared.differences


def told(rows, links, rate=""):
    return [str(one) for one in differences(rows, links, rate)]


def test_planned_cabling_is_found():
    seen = compare(ROWS, read_links(TEXT), rate=NDR)
    assert seen.live.switches == {"leaf-su1-r1", "leaf-su1-r3", "spine-01"}
    assert (seen.differences, seen.unknown) == ((), ())


def test_switch_links_may_have_another_rate():
    rates = {row.split()[0]: "2x NDR" for row in ROWS[:2]}
    assert compare(ROWS, discovered(ROWS, rates), rate="2x NDR", switch_rate=NDR).differences == ()
    slow = compare(
        ROWS, discovered(ROWS, {**rates, "worker0/mlx5_1:1": "1x NDR", "leaf-su1-r1:9": "2x NDR"}), rate="2x NDR", switch_rate=NDR
    )
    assert [(str(one.end), one.rate) for one in slow.differences] == [("worker0/mlx5_1:1", "1x NDR"), ("leaf-su1-r1:9", "2x NDR")]


def test_managed_switch_is_identified_by_host_name():
    assert differences(ROWS, read_links(TEXT.replace("'spine-01'", "'MF0;spine-01:MQM9700/U1'")), NDR) == ()


def test_internal_switch_links_are_no_cables():
    """For three such switches or one, and with any descriptions."""
    assert read_links(REAL_FORM).far == read_links(TEXT).far
    assert differences(ROWS, read_links(REAL_FORM), NDR) == ()
    alone = "".join(line for line in REAL_FORM.splitlines(True) if "Aggregation" not in line or "leaf-su1-r1" in line)
    assert differences(ROWS, read_links(alone), NDR) == ()
    assert differences(ROWS, read_links(REAL_FORM.replace("Mellanox Technologies Aggregation Node", "")), NDR) == ()


def test_router_inside_switch_is_no_cable():
    inside = link(
        switch(0xFC6A1C0300000200, "spine-01"), 149, adapter(0xFC6A1C0300000208, "MF0;spine-01:Q3400_RA/U1/RT")._replace(kind="RT"), 2
    )
    assert differences(ROWS, read_links(TEXT + inside), NDR) == ()


def test_router_at_planned_port_is_reported():
    router = adapter(0x946DAE0300AA0010, "edge router")._replace(kind="RT")
    text = "".join(line for line in TEXT.splitlines(True) if "worker0 mlx5_1" not in line)
    found = told(ROWS, read_links(text + link(router, 1, switch(0xFC6A1C0300000300, "leaf-su1-r1"), 1)))
    assert found == ['leaf-su1-r1:1 is connected to "edge router" 0x946dae0300aa0010:1 (expected worker0/mlx5_1:1)']


def test_unplugged_cable_is_named_by_both_ends():
    assert told(ROWS, discovered(ROWS[1:])) == ["worker0/mlx5_1:1 - leaf-su1-r1:1 is missing"]


def test_swapped_cables_are_named_with_location():
    swapped = discovered(("worker0/mlx5_1:1 leaf-su1-r3:1", "worker0/mlx5_3:1 leaf-su1-r1:1", *ROWS[2:]))
    assert told(ROWS, swapped) == [
        "worker0/mlx5_1:1 is connected to leaf-su1-r3:1 (expected leaf-su1-r1:1)",
        "worker0/mlx5_3:1 is connected to leaf-su1-r1:1 (expected leaf-su1-r3:1)",
    ]


def test_occupied_port_is_reported():
    (one,) = differences(ROWS, discovered(("stranger/mlx5_0:1 leaf-su1-r1:1", *ROWS[1:])))
    assert str(one) == 'leaf-su1-r1:1 is connected to "stranger mlx5_0" 0xb8cef60000000030:1 (expected worker0/mlx5_1:1)'
    assert one.node == "worker0"


def test_unplanned_cable_between_switches_is_reported():
    (between,) = differences(ROWS, discovered((*ROWS, "leaf-su1-r1:61 leaf-su1-r3:61")))
    assert between.is_between_switches


@pytest.mark.parametrize("name", ["storage0/mlx5_0", "worker0/mlx5_9", "worker9/HCA-1"])
def test_adapter_outside_the_plan_is_listed_apart(name):
    """Storage servers, storage adapters of workers, gateways and UFM: at free ports, their cables are no fault."""
    seen = compare(ROWS, discovered((*ROWS, f"leaf-su1-r1:60 {name}:1")))
    assert (seen.differences, seen.unknown) == ((), ())
    (one,) = seen.others
    assert "leaf-su1-r1:60 is not planned" in str(one)


def test_second_port_of_a_planned_adapter_is_reported():
    (one,) = differences(ROWS, discovered((*ROWS, "leaf-su1-r1:60 worker0/mlx5_1:2")))
    assert str(one) == "worker0/mlx5_1:2 - leaf-su1-r1:60 is not planned"


def test_slow_link_needs_a_planned_rate():
    slow = discovered(ROWS, {"leaf-su1-r1:9": "2x HDR"})
    assert told(ROWS, slow, NDR) == ["leaf-su1-r1:9 - spine-01:2 runs at 2x HDR"]
    assert told(ROWS, slow) == []


def test_switch_cable_belongs_to_no_node():
    assert [(one.node, one.is_between_switches) for one in differences(ROWS, discovered(ROWS[:3]))] == [(None, True)]


@pytest.mark.parametrize("text", ["", "words\n", "ibnetdiscover: iberror: failed: discover failed\n", "== mlx5_0 ended with status 255\n"])
def test_output_without_links_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read_links(text)


LEFT_OUT = {
    "cut within a row": TEXT[: TEXT.index("'spine-01' - 'leaf-su1-r1'")],
    "damaged words": TEXT.replace("4x NDR - SW", "4x NDR ? SW", 1).replace("0xfc6a1c0300000200 4x NDR", "0xfc6a[N/A] 4x NDR", 1),
    "without one row": "".join(line for number, line in enumerate(TEXT.splitlines(True)) if number != 3),
    "a message within a row": TEXT.replace("(CA    13", "CA   ").replace("CA    13  1 ", "CA  \nWARN: string buffer overflow\n", 1),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_links_are_read_from_either_row(case):
    """Each link has a row at both ends."""
    links = read_links(LEFT_OUT[case])
    assert (links.far, links.rates) == (read_links(TEXT).far, read_links(TEXT).rates)
    assert links.is_incomplete
    assert compare(ROWS, links, rate=NDR).differences == ()


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n\n"])
def test_line_ends_and_messages_change_nothing(ends):
    links = read_links("Warning: deprecated\n" + ends.join(TEXT.splitlines()) + f"{ends}Some words{ends}")
    assert (links.far, links.descriptions, links.is_incomplete) == (read_links(TEXT).far, read_links(TEXT).descriptions, False)


def test_cable_without_rows_is_unknown_in_incomplete_output():
    """Not missing; a port that is listed as down has no cable."""
    text = "".join(line for line in TEXT.splitlines(True) if "worker0 mlx5_1" not in line)
    assert [str(one) for one in compare(ROWS, read_links(text)).differences] == ["worker0/mlx5_1:1 - leaf-su1-r1:1 is missing"]
    seen = compare(ROWS, read_links(text + "SW     4  1 0xfc6a1c[N/A] 4x NDR\n"))
    assert (seen.differences, [str(cable.near) for cable in seen.unknown]) == ((), ["worker0/mlx5_1:1"])
    assert 'a row cannot be read: "SW     4  1 0xfc6a1c[N/A] 4x NDR"' in seen.why_unknown
    down = compare(ROWS, read_links(text + f"{unused(switch(0xFC6A1C0300000300, 'leaf-su1-r1', 4), 1)}SW 9 1 0xfc6a[N/A] 4x NDR\n"))
    assert [one.kind for one in down.differences] == [Kind.MISSING]


def test_unreadable_rate_is_that_of_the_other_end():
    text = TEXT.replace("SW     4  9 0xfc6a1c0300000300 4x NDR", "SW     4  9 0xfc6a1c0300000300 4x ???")
    assert read_links(text).rates == read_links(TEXT).rates
    both = text.replace("SW     2  2 0xfc6a1c0300000200 4x NDR", "SW     2  2 0xfc6a1c0300000200 4x ???")
    seen = compare(ROWS, read_links(both), rate=NDR)
    assert (seen.differences, [str(cable.near) for cable in seen.unknown]) == ((), ["leaf-su1-r1:9"])
    assert "the tool does not know the rate of leaf-su1-r1:9" in seen.why_unknown


def test_duplicate_guids_affect_their_devices_alone():
    one, other = adapter(0xA0, "worker0 mlx5_0"), adapter(0xA0, "worker1 mlx5_0")
    leaf, third = switch(0xB0, "leaf-01"), adapter(0xC0, "worker2 mlx5_0")
    links = read_links(link(one, 1, leaf, 1) + link(other, 1, leaf, 2) + link(third, 1, leaf, 3))
    rows = [f"worker{node}/mlx5_0:1 leaf-01:{node + 1}" for node in range(3)]
    seen = compare(rows, links)
    assert (seen.differences, [str(cable.near) for cable in seen.unknown]) == ((), ["worker0/mlx5_0:1", "worker1/mlx5_0:1"])
    assert "two devices have the same GUID" in seen.why_unknown


@calm
@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_each_changed_cable_is_named_alone(nodes, rails, data):
    rows = [f"worker{node}/mlx5_{rail}:1 leaf-r{rail}:{node + 1}" for node in range(nodes) for rail in range(rails)]
    spare = ["spare/mlx5_0:1 leaf-spare:1"]
    removed = data.draw(st.sets(st.sampled_from(rows)))
    found = differences([*rows, *spare], discovered([*[row for row in rows if row not in removed], *spare]))
    assert {f"{one.end} {one.planned}" for one in found} == removed
    assert {one.kind for one in found} <= {Kind.MISSING}
    others = data.draw(st.permutations(range(len(rows))))
    swapped = [f"{row.split()[0]} {rows[other].split()[1]}" for row, other in zip(rows, others, strict=True)]
    moved = differences(rows, discovered(swapped))
    assert [str(one.end) for one in moved] == [row.split()[0] for row, now in zip(rows, swapped, strict=True) if row != now]
    assert all(isinstance(one, Difference) and one.kind is Kind.MOVED and isinstance(one.found, CableEnd) for one in moved)
