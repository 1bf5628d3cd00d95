"""Bonds and VLANs of existing machines: what the kernel prints of them, and the checks against the description.

The samples are of Linux 6.1 and iproute2 6.1 on an emulated machine: a bond of two veth devices, with a VLAN in a bridge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_network
from rackwright.checks.cluster.probes.links import LINKS, parse_links
from rackwright.report.verdict import Verdict

FOLDER = Path(__file__).parents[1] / "captured" / "network-links"
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def captured(case: str) -> str:
    return (FOLDER / f"{case}.txt").read_text(encoding="utf-8")


def changed(case: str, name: str, change: Callable[[dict[str, Any]], object]) -> str:
    """Return an output after a change of one interface."""
    entries = json.loads(captured(case))
    for entry in entries:
        if entry["ifname"] == name:
            change(entry)
    return json.dumps(entries)


def bond(mode: str = "active-backup", members: tuple[str, ...] = ("e0", "e1"), min_links: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(mode=mode, members=list(members), min_links=min_links or len(members))


def node(**declared: dict[str, SimpleNamespace]) -> SimpleNamespace:
    return SimpleNamespace(name="worker0", **{field: SimpleNamespace(**of) for field, of in declared.items()})


def verdict(check: Callable[..., None], text: str, on: SimpleNamespace) -> tuple[Verdict, str]:
    return verdict_of(check, answers_of({LINKS: text}), node=on)


class TestAllLinks:
    @pytest.mark.parametrize(
        ("case", "result", "words"),
        [
            ("good", PASSED, ""),
            ("no-carrier", FAILED, "bond0 e1: no carrier"),
            ("disabled", FAILED, "bond0 e1: disabled"),
            ("unmonitored", FAILED, "bond0 e1: no carrier"),
            ("lacp-no-partner", FAILED, "bond0 e0: no LACP partner; bond0 e1: no LACP partner"),
            ("lacp-expired", FAILED, "bond0 e1: LACP negotiation is not complete"),
            ("broken", UNKNOWN, ""),
        ],
    )
    def test_undeclared_bond_is_judged(self, case: str, result: Verdict, words: str) -> None:
        found, why = verdict(test_network.test_bonds_have_all_links, captured(case), node())
        assert found is result
        assert words in why

    @pytest.mark.parametrize(
        ("values", "result", "words"),
        [
            ({"state": "ACTIVE"}, PASSED, ""),
            ({"ad_aggregator_id": 2}, FAILED, "bond0 e1: not in the active LACP aggregator"),
            ({"state": 2}, UNKNOWN, ""),
        ],
    )
    def test_member_of_an_lacp_bond_is_judged_by_its_state(self, values: dict[str, Any], result: Verdict, words: str) -> None:
        """The switch has stopped sending LACPDUs on e1; e0 carries traffic."""
        text = changed("lacp-expired", "e1", lambda entry: entry["linkinfo"]["info_slave_data"].update(values))
        found, why = verdict(test_network.test_bonds_have_all_links, text, node())
        assert found is result
        assert words in why and "e0" not in why

    def test_bond_without_an_active_aggregator_carries_nothing(self) -> None:
        text = changed("lacp-expired", "bond0", lambda entry: entry["linkinfo"]["info_data"].pop("ad_info"))
        found, why = verdict(test_network.test_bonds_have_all_links, text, node())
        assert (found, "bond0 e0: the bond has no active aggregator" in why) == (FAILED, True)

    def test_lost_member_is_known_only_by_the_description(self) -> None:
        check = test_network.test_bonds_have_all_links
        assert verdict(check, captured("one-member"), node())[0] is PASSED
        found, why = verdict(check, captured("one-member"), node(bonds={"bond0": bond()}))
        assert (found, "bond0 e1: not assigned to the bond" in why) == (FAILED, True)

    def test_alternative_name_is_the_same_member(self) -> None:
        on = node(bonds={"bond0": bond(members=("e0", "enp1s0f1np1"))})
        assert verdict(test_network.test_bonds_have_all_links, captured("good"), on)[0] is PASSED
        assert verdict(test_network.test_bonds_match_description, captured("good"), on)[0] is PASSED

    def test_declared_number_of_links_is_enough(self) -> None:
        check = test_network.test_bonds_have_all_links
        assert verdict(check, captured("no-carrier"), node(bonds={"bond0": bond(min_links=1)}))[0] is PASSED
        both = changed("no-carrier", "e0", lambda entry: entry["flags"].append("NO-CARRIER"))
        assert verdict(check, both, node(bonds={"bond0": bond(min_links=1)}))[0] is FAILED

    def test_bond_that_a_machine_does_not_use_is_left_out(self) -> None:
        """Loading the module creates a bond0 that has no members."""
        unused = changed("no-carrier", "bond0", lambda entry: entry["flags"].remove("UP"))
        assert verdict(test_network.test_bonds_have_all_links, unused, node())[0] is PASSED

    @pytest.mark.parametrize("status", ["GOING_DOWN", "GOING_BACK", "DOWN"])
    def test_link_that_the_bond_does_not_use_fails(self, status: str) -> None:
        text = changed("good", "e1", lambda entry: entry["linkinfo"]["info_slave_data"].update(mii_status=status))
        assert verdict(test_network.test_bonds_have_all_links, text, node())[0] is FAILED

    @pytest.mark.parametrize("status", [7, None])
    def test_unknown_state_is_unknown(self, status: int | None) -> None:
        """iproute2 prints a state that it does not know as a number."""
        text = changed("good", "e1", lambda entry: entry["linkinfo"]["info_slave_data"].update(mii_status=status))
        assert verdict(test_network.test_bonds_have_all_links, text, node())[0] is UNKNOWN

    def test_unreadable_member_does_not_hide_a_dead_one(self) -> None:
        text = changed("no-carrier", "e0", lambda entry: entry.pop("linkinfo"))
        found, why = verdict(test_network.test_bonds_have_all_links, text, node())
        assert (found, "bond0 e1: no carrier" in why) == (FAILED, True)

    def test_odd_entry_leaves_the_others_readable(self) -> None:
        text = json.dumps([*json.loads(captured("no-carrier")), {}, {"ifindex": 9}])
        assert set(parse_links(text).bonds) == {"bond0"}
        assert verdict(test_network.test_bonds_have_all_links, text, node())[0] is FAILED
        whole = json.dumps([*json.loads(captured("good")), {"ifindex": 9}])
        assert verdict(test_network.test_bonds_have_all_links, whole, node())[0] is UNKNOWN


class TestDescription:
    @pytest.mark.parametrize(
        ("declared", "result", "words"),
        [
            ({"bond0": bond()}, PASSED, ""),
            ({"bond0": bond(mode="802.3ad")}, FAILED, "expected bond0: 802.3ad, found bond0: active-backup"),
            ({"bond0": bond(members=("e0", "e2"))}, FAILED, "bond0 e1: a member"),
            ({"bond1": bond()}, FAILED, "bond1: missing"),
            ({"br0": bond()}, FAILED, "br0: is of kind bridge"),
        ],
    )
    def test_bond_is_compared(self, declared: dict[str, SimpleNamespace], result: Verdict, words: str) -> None:
        found, why = verdict(test_network.test_bonds_match_description, captured("good"), node(bonds=declared))
        assert found is result
        assert words in why

    def test_disabled_bond_differs(self) -> None:
        text = changed("good", "bond0", lambda entry: entry["flags"].remove("UP"))
        found, why = verdict(test_network.test_bonds_match_description, text, node(bonds={"bond0": bond()}))
        assert (found, "which is disabled" in why) == (FAILED, True)

    @pytest.mark.parametrize(
        ("name", "number", "parent", "result", "words"),
        [
            ("bond0.100", 100, "bond0", PASSED, ""),
            ("bond0.100", 101, "bond0", FAILED, "expected bond0.100: 101 on bond0, found bond0.100: 100 on bond0"),
            ("bond0.100", 100, "e0", FAILED, "100 on e0"),
            ("bond0.200", 200, "bond0", FAILED, "bond0.200: missing"),
            ("br0", 100, "bond0", FAILED, "br0: is of kind bridge"),
        ],
    )
    def test_vlan_is_compared(self, name: str, number: int, parent: str, result: Verdict, words: str) -> None:
        on = node(vlans={name: SimpleNamespace(id=number, parent=parent)})
        found, why = verdict(test_network.test_vlans_match_description, captured("good"), on)
        assert found is result
        assert words in why

    @pytest.mark.parametrize(
        ("change", "result"),
        [
            (lambda entry: entry["flags"].remove("UP"), FAILED),
            (lambda entry: entry["linkinfo"]["info_data"].update(protocol="802.1ad"), FAILED),
            (lambda entry: entry["linkinfo"]["info_data"].pop("id"), UNKNOWN),
            (lambda entry: entry.pop("link"), FAILED),
        ],
    )
    def test_odd_vlan_differs(self, change: Callable[[dict[str, Any]], object], result: Verdict) -> None:
        on = node(vlans={"bond0.100": SimpleNamespace(id=100, parent="bond0")})
        assert verdict(test_network.test_vlans_match_description, changed("good", "bond0.100", change), on)[0] is result
