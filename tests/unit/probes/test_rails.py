"""The rails of virtual machines: whom a node pings with which frames, and what the checks make of the answers."""

from __future__ import annotations

import doctest
import re
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.catalog import switches
from rackwright.checks.cluster import test_fabric
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes import rails as rails_probes
from rackwright.checks.cluster.probes.neighbours import INTERFACES, Interface
from rackwright.checks.cluster.probes.rails import GIDS, RAIL_FRAMES, parse_gids, parse_rail_frames
from rackwright.errors import UndeterminedError

NAMES = ("worker0", "worker1", "worker2", "worker3")


def rails(place: int) -> list[dict[str, Any]]:
    """Return the two rails of a node."""
    return [
        {"name": f"eth{rail + 1}", "device": f"rxe{rail}", "address": f"198.18.{rail}.{24 + place}", "prefix": 24, "mtu": 4400}
        for rail in range(2)
    ]


NODES = {name: {"name": name, "rail_interfaces": rails(place)} for place, name in enumerate(NAMES)} | {"login0": {"name": "login0"}}
NODE = SimpleNamespace(name="worker0", rail_interfaces=[SimpleNamespace(**rail) for rail in rails(0)])


def context(name: str) -> Any:
    """Return the place of a probe."""
    return SimpleNamespace(node=NODES[name], declared=SimpleNamespace(nodes=NODES, members=lambda group: (*NAMES, "login0")))


def test_node_pings_next_two_of_each_rail_with_full_frames() -> None:
    command = RAIL_FRAMES.command_at(context("worker3"))
    assert re.findall(r"-I (\S+) -M do -s (\d+) (\S+) >", command) == [
        ("eth1", "4372", "198.18.0.24"),
        ("eth1", "4372", "198.18.0.25"),
        ("eth2", "4372", "198.18.1.24"),
        ("eth2", "4372", "198.18.1.25"),
    ]
    assert re.findall(r"echo (eth\d) (\S+) \$full \$small", command) == [
        ("eth1", "worker0"),
        ("eth1", "worker1"),
        ("eth2", "worker0"),
        ("eth2", "worker1"),
    ]


def test_node_without_rails_pings_nobody() -> None:
    assert RAIL_FRAMES.command_at(context("login0")) == "echo 'end|'"


ADDRESSES = (Interface("eth1", "198.18.0.24", "198.18.0.0/24", ""), Interface("eth2", "198.18.1.24", "198.18.1.0/24", ""))
FRAMES = "eth1 worker1 0 -\neth2 worker1 0 -\nend|\n"
ENTRIES = "rxe0|1|0000:0000:0000:0000:0000:ffff:c612:0018|RoCE v2|eth1\nrxe1|1|0000:0000:0000:0000:0000:ffff:c612:0118|RoCE v2|eth2\nend|\n"


def judge(check: str, *, addresses: Any = ADDRESSES, frames: str = FRAMES, gids: str = ENTRIES, lost: tuple[str, ...] = ()) -> str:
    """Return `passed`, or what is found in place of the plan."""

    def ask(probe: Any, of: str = "worker0") -> Any:
        if of in lost:
            raise UndeterminedError(f"{of} is unreachable")
        return {INTERFACES: addresses, RAIL_FRAMES: parse_rail_frames(frames), GIDS: parse_gids(gids)}[probe]

    try:
        getattr(test_fabric, check)(node=NODE, ask=ask, expect=Expect())
    except Mismatch as error:
        return str(error)
    return "passed"


@pytest.mark.parametrize("check", ["test_rail_addresses_match_plan", "test_rails_carry_full_frames", "test_gids_match_plan"])
def test_rails_as_planned_pass(check: str) -> None:
    assert judge(check) == "passed"


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ((), "no address"),
        ((Interface("eth2", "198.18.1.99", "198.18.1.0/24", ""),), "198.18.1.99/24"),
        ((Interface("eth2", "198.18.1.24", "198.18.0.0/15", ""),), "198.18.1.24/15"),
        ((ADDRESSES[1], Interface("eth2", "10.0.0.1", "10.0.0.0/8", "")), "198.18.1.24/24, 10.0.0.1/8"),
    ],
)
def test_other_addresses_of_a_rail_fail(second: tuple[Interface, ...], says: str) -> None:
    found = judge("test_rail_addresses_match_plan", addresses=(ADDRESSES[0], *second))
    assert "eth2" in found and says in found and "eth1" not in found


def test_small_frames_are_named() -> None:
    found = judge("test_rails_carry_full_frames", frames="eth1 worker1 0 -\neth2 worker1 1 0\nend|\n")
    assert "worker1 on eth2" in found and "small frames only" in found and "full frames of 4400 bytes" in found


def test_rail_without_replies_fails() -> None:
    assert "no reply" in judge("test_rails_carry_full_frames", frames="eth1 worker1 1 1\neth2 worker1 2 2\nend|\n")


def test_neighbour_that_is_lost_does_not_count() -> None:
    frames = "eth1 worker1 1 1\neth1 worker2 0 -\nend|\n"
    assert judge("test_rails_carry_full_frames", frames=frames, lost=("worker1",)) == "passed"


@pytest.mark.parametrize("frames", ["end|\n", "eth1 worker1 0 -\neth2 worker1 127 127\nend|\n"], ids=["no neighbour", "unread line"])
def test_missing_results_of_rails_are_unknown(frames: str) -> None:
    with pytest.raises(UndeterminedError):
        judge("test_rails_carry_full_frames", frames=frames)


@pytest.mark.parametrize(
    "second",
    [
        "",
        "rxe1|1|0000:0000:0000:0000:0000:ffff:c612:0118|IB/RoCE v1|eth2\n",
        "rxe1|1|0000:0000:0000:0000:0000:ffff:c612:0118|RoCE v2|eth0\n",
        "rxe1|1|0000:0000:0000:0000:0000:ffff:c612:0119|RoCE v2|eth2\n",
    ],
    ids=["no device", "version 1", "other card", "other address"],
)
def test_device_without_gid_of_its_rail_fails(second: str) -> None:
    found = judge("test_gids_match_plan", gids=ENTRIES.splitlines()[0] + f"\n{second}end|\n")
    assert "rxe1" in found and "missing" in found and "rxe0" not in found


def test_unread_gids_are_unknown() -> None:
    with pytest.raises(UndeterminedError):
        judge("test_gids_match_plan", gids=ENTRIES.splitlines()[0] + "\nrxe1|one\nend|\n")


@pytest.mark.parametrize("module", [rails_probes, switches])
def test_examples_of_rails_and_rates_hold(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
