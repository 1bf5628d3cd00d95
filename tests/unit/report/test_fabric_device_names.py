"""Devices of a fabric are matched to the plan by GUID, else by an unambiguous description; otherwise they stay unknown."""

from __future__ import annotations

import pytest
from support.fabric_text import adapter, link, switch, unused

from rackwright.report.fabric.comparison import compare
from rackwright.report.fabric.ibnetdiscover import DeviceKind, read_links, read_node_names

ROWS = ("worker0/mlx5_0:1 leaf-01:1", "worker1/mlx5_0:1 leaf-02:1", "leaf-01:40 leaf-02:40")
GUIDS = {"worker0/mlx5_0": 0x946DAE0300000B94, "worker1/mlx5_0": 0x946DAE0300000B74}
LEAVES = (0xFC6A1C0300008200, 0xFC6A1C0300009300)


def fabric(adapters=("worker0 mlx5_0", "worker1 mlx5_0"), leaves=("leaf-01", "leaf-02"), ports=(1, 1)):
    """Return the fabric as planned, with these descriptions; `ports`: where the adapters are connected."""
    one, other = (adapter(guid, said) for guid, said in zip(GUIDS.values(), adapters, strict=True))
    first, second = (switch(guid, said) for guid, said in zip(LEAVES, leaves, strict=True))
    text = link(one, 1, first, ports[0]) + link(other, 1, second, ports[1]) + link(first, 40, second, 40) + unused(second, 39)
    return read_links(text)


def told(links, **known):
    compared = compare(ROWS, links, **known)
    return [str(one) for one in compared.differences], [f"{cable.near} {cable.far}" for cable in compared.unknown]


ADAPTERS = [
    ("worker0 HCA-1", "worker1 HCA-1"),
    ("worker0 mlx5_0", "worker0 mlx5_0"),
    ("", ""),
    ("  ", "worker1 mlx5_0"),
    ("localhost mlx5_0", "localhost mlx5_0"),
    ("MT4129 ConnectX7   Mellanox Technologies", "MT4129 ConnectX7   Mellanox Technologies"),
    ("worker1 mlx5_0", "worker0 mlx5_0"),
    ("leaf-01", "node with many words in its name"),
    ("it's - 'quoted", "worker1 mlx5_0 ' - '"),
]


@pytest.mark.parametrize("adapters", ADAPTERS)
def test_adapters_with_guids_need_no_description(adapters):
    assert told(fabric(adapters), guids=GUIDS) == ([], [])
    crossed = compare(ROWS, fabric(adapters), guids=dict(zip(GUIDS, reversed(GUIDS.values()), strict=True)))
    assert [str(one) for one in crossed.differences] == [
        "worker0/mlx5_0:1 is connected to leaf-02:1 (expected leaf-01:1)",
        "worker1/mlx5_0:1 is connected to leaf-01:1 (expected leaf-02:1)",
    ]


@pytest.mark.parametrize("adapters", [*ADAPTERS[:3], *ADAPTERS[4:6]])
def test_adapters_without_guid_and_name_are_skipped(adapters):
    compared = compare(ROWS, fabric(adapters))
    assert ([str(one) for one in compared.differences], [str(cable.near) for cable in compared.unknown]) == (
        [],
        ["worker0/mlx5_0:1", "worker1/mlx5_0:1"],
    )
    assert "2 adapters have neither a name nor a GUID of the plan" in compared.why_unknown
    assert "0x946dae0300000b94" in compared.why_unknown


def test_unnamed_adapter_leaves_others_compared():
    assert told(fabric(("", "worker1 mlx5_0"))) == ([], ["worker0/mlx5_0:1 leaf-01:1"])


def test_node_names_may_include_domain():
    assert told(fabric(("worker0.cluster.example mlx5_0", "worker1.cluster.example mlx5_0"))) == ([], [])


def test_guid_outweighs_description():
    """The description says worker1; the node worker0 reports the GUID."""
    assert told(fabric(("worker1 mlx5_0", "worker0 mlx5_0"), ports=(1, 1)), guids=GUIDS) == ([], [])


def test_misplaced_cable_is_certain_at_unnamed_switch():
    """It may be either of the two switches: the port is wrong in both cases."""
    found, unknown = told(fabric(leaves=("", ""), ports=(7, 1)), guids=GUIDS)
    assert found == [f'worker0/mlx5_0:1 is connected to "" {LEAVES[0]:#018x}:7 (expected leaf-01:1)']
    assert unknown == ["worker1/mlx5_0:1 leaf-02:1", "leaf-01:40 leaf-02:40"]


UNNAMED = [
    ("SwitchIB Mellanox Technologies", "SwitchIB Mellanox Technologies"),
    ("Quantum Mellanox Technologies", "Infiniscale-IV Mellanox Technologies"),
    ("", ""),
    ("leaf", "leaf"),
    ("MF0;switch-5e1f00:MSB7800/U1", "MF0;switch-5e1f00:MSB7800/U1"),
]


@pytest.mark.parametrize("leaves", UNNAMED)
def test_unnamed_switches_are_not_compared(leaves):
    compared = compare(ROWS, fabric(leaves=leaves), guids=GUIDS)
    assert len(compared.live.switches) == 2
    assert ([str(one) for one in compared.differences], len(compared.unknown)) == ([], 3)
    assert compared.why_unknown.startswith("3 planned cables cannot be compared: 2 switches have neither a name nor a GUID of the plan")
    assert {end.kind for end in compared.live.far if end.port == 40} == {DeviceKind.SWITCH}
    assert {end.node for end in compared.live.far if end.kind is DeviceKind.SWITCH} == {None}


@pytest.mark.parametrize("leaves", UNNAMED)
def test_node_name_map_names_switches(leaves):
    names = read_node_names(f'# leaves\n{LEAVES[0]:#x} "leaf-01"\n\n{LEAVES[1]:#x}\t"leaf-02"  # rack 2\n')
    assert told(fabric(leaves=leaves).renamed(names)) == ([], [])


def test_invalid_name_line_is_refused():
    with pytest.raises(ValueError, match="line 2 is not a line of a node-name map: leaf-01"):
        read_node_names('0x1 "spine-01"\nleaf-01\n')


def test_switch_name_may_contain_blanks():
    live = compare(ROWS, fabric(leaves=("rack 1 slot 2", "leaf-02"))).live
    assert live.switches == {"rack 1 slot 2", "leaf-02"}
    assert {end.device for end in live.far if end.kind is DeviceKind.SWITCH} == {"rack 1 slot 2", "leaf-02"}


@pytest.mark.parametrize(
    ("leaves", "names"),
    [
        (("MF0;ib-r1:Q3400_RA/U1", "MF0;ib-r1:Q3400_RA/U2"), {"ib-r1/U1", "ib-r1/U2"}),
        (("MF0;core:CS8500/L17/U2", "MF0;core:CS8500/S3/U1"), {"core/L17/U2", "core/S3/U1"}),
        (("MF0;core:CS8500/L17/U2", "leaf-02"), {"core/L17/U2", "leaf-02"}),
        (("MF0;leaf-01:MQM9700/U1", "MF0;leaf-02:MQM9790"), {"leaf-01", "leaf-02"}),
    ],
)
def test_each_chip_has_a_name(leaves, names):
    compared = compare(ROWS, fabric(leaves=leaves))
    assert compared.live.switches == names
    assert len(compared.live.far) == 6
    assert {end.node for end in compared.live.far if end.kind is DeviceKind.SWITCH} == {None}


CORE = ("worker0/mlx5_0:1 core:5", "worker1/mlx5_0:1 core:57")
"""Line cards of two chips with 18 ports: port 5 of the first chip, port 3 of the fourth."""


def director(far="MF0;core:CS7500/L02/U2"):
    """Return a director switch with an adapter at each of two line cards, which a spine card joins."""
    chips = [
        switch(LEAVES[0] + 0x10 * number, said) for number, said in enumerate(("MF0;core:CS7500/L01/U1", far, "MF0;core:CS7500/S3/U1"))
    ]
    adapters = [adapter(GUIDS[name], name.replace("/", " ")) for name in ("worker0/mlx5_0", "worker1/mlx5_0")]
    return read_links(
        link(adapters[0], 1, chips[0], 5)
        + link(adapters[1], 1, chips[1], 3)
        + link(chips[0], 19, chips[2], 1)
        + link(chips[1], 20, chips[2], 2)
    )


def test_director_ports_are_those_of_line_cards():
    compared = compare(CORE, director(), line_card="2x18")
    assert (compared.differences, compared.unknown, compared.live.switches) == ((), (), {"core"})
    moved = compare((CORE[0], "worker1/mlx5_0:1 core:58"), director(), line_card="2x18")
    assert [str(one) for one in moved.differences] == ["worker1/mlx5_0:1 is connected to core:57 (expected core:58)"]
    assert moved.unknown == ()


def test_ports_of_unplaced_chips_are_unknown():
    """The switch is known: a cable to another switch is certain."""
    compared = compare(CORE, director())
    assert (compared.differences, len(compared.unknown), compared.live.switches) == ((), 2, {"core"})
    assert "the chips of core" in compared.why_unknown
    moved = compare(CORE, director("MF0;other:MQM9700/U1"))
    assert [str(one.found) for one in moved.differences if one.planned] == ["other:3"]
    assert len(moved.unknown) == 1
    nameless = link(adapter(GUIDS["worker0/mlx5_0"], ""), 1, switch(LEAVES[0], "MF0;core:CS7500/L01/U1"), 5)
    inner = link(switch(LEAVES[0], "MF0;core:CS7500/L01/U1"), 19, switch(LEAVES[1], "MF0;core:CS7500/S3/U1"), 1)
    compared = compare(CORE[:1], read_links(nameless + inner))
    assert (compared.differences, len(compared.unknown)) == ((), 1)


def test_ports_of_one_adapter_share_a_description():
    """Each has its own GUID (mlx4); the plan has port 1."""
    second = link(adapter(0x946DAE0300000B95, "worker0 mlx5_0"), 2, switch(LEAVES[1], "leaf-02"), 30)
    first = link(adapter(GUIDS["worker0/mlx5_0"], "worker0 mlx5_0"), 1, switch(LEAVES[0], "leaf-01"), 1)
    found = compare(ROWS[:1], read_links(first + second))
    assert found.unknown == ()
    assert [str(one) for one in found.differences] == ["worker0/mlx5_0:2 - leaf-02:30 is not planned"]


def test_guid_of_two_nodes_identifies_neither():
    assert told(fabric(), guids=dict.fromkeys(GUIDS, GUIDS["worker0/mlx5_0"]))[1] == list(ROWS[:2])


def test_hidden_adapters_are_not_compared():
    """A virtual function has a GUID of its own, which the fabric does not show, on the link of its physical function."""
    assert told(fabric(("hypervisor3 mlx5_0", "worker1 mlx5_0")), hidden={"worker0/mlx5_0"}) == (
        [],
        ["worker0/mlx5_0:1 leaf-01:1"],
    )


def test_adapter_without_link_is_missing():
    """Its node reports its GUID, and the fabric does not list it."""
    text = link(adapter(GUIDS["worker1/mlx5_0"], ""), 1, switch(LEAVES[1], "leaf-02"), 1)
    text += link(switch(LEAVES[0], "leaf-01"), 40, switch(LEAVES[1], "leaf-02"), 40)
    assert told(read_links(text), guids=GUIDS) == (["worker0/mlx5_0:1 - leaf-01:1 is missing"], [])
