"""Addresses of a node's links, from `ip -json address` of iproute2 5.10 to 6.15."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.drift.difference import Category
from rackwright.drift.host_baseline.compare import differences
from rackwright.operations.drift.host_baseline import without_transient
from rackwright.remote.programs import host_baseline
from rackwright.remote.programs.host_addresses import read_addresses
from rackwright.remote.programs.unread_lines import UNREAD

FOLDER = Path(__file__).parent / "captured" / "addresses"
LOOPBACK = {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}]}
LO = {"lo 127.0.0.1/8": "scope host"}


def address(local, prefix=24, **more):
    family = "inet6" if ":" in local else "inet"
    return {"family": family, "local": local, "prefixlen": prefix, "scope": "global", **more}


def listed(*addresses, link="eth0"):
    return json.dumps([LOOPBACK, {"ifname": link, "addr_info": list(addresses)}]) + "\n"


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("good-debian-13", {"lo ::1/128": "scope host", "eth0 10.77.0.24/24": "scope global"}),
        ("good-aws", {"lo ::1/128": "scope host", "ens5 172.16.9.20/20": "scope global"}),
        (
            "good-kubernetes",
            {"lo ::1/128": "scope host", "eno1 192.0.2.31/24": "scope global", "eno1 2001:db8:1::31/64": "scope global"},
        ),
    ],
)
def test_addresses_of_the_node_are_listed(monkeypatch, file, found):
    text = (FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(host_baseline, "run", lambda *command, strict: text)
    assert host_baseline.addresses() == LO | found


LIFE = {"valid_life_time": 100, "preferred_life_time": 50}


@pytest.mark.parametrize(
    "one",
    [
        address("fe80::1", 64, scope="link"),
        address("fe80::1", 64, scope="global"),
        address("2001:db8::1", 64, dynamic=True, mngtmpaddr=True, **LIFE),
        address("2001:db8::2", 64, temporary=True, dynamic=True, **LIFE),
        address("2001:db8::3", 64, temporary=True, deprecated=True, dynamic=True),
        address("2001:db8::4", 128, dynamic=True, noprefixroute=True),
        address("2001:db8::5", 64, mngtmpaddr=True),
        address("2001:db8::6", 64, **{"stable-privacy": True}),
        address("2001:db8::7", 64, protocol="kernel_ra"),
        {},
    ],
    ids=["link", "link-in-global-scope", "slaac", "temporary", "expired", "dhcpv6", "networkd", "privacy", "kernel-ra", "filtered"],
)
def test_assigned_ipv6_address_is_left_out(one):
    assert read_addresses(listed(one)) == LO


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (address("192.0.2.7", dynamic=True, **LIFE), "scope global"),
        (address("192.0.2.7", 32), "scope global"),
        (address("192.0.2.7", secondary=True, label="eth0:1"), "scope global"),
        (address("192.0.2.7", deprecated=True, protocol="keepalived"), "scope global"),
        (address("192.0.2.7", address="192.0.2.8"), "scope global, peer 192.0.2.8"),
        (address("169.254.169.254", 32, scope="link"), "scope link"),
        (address("2001:db8::7", 64, dadfailed=True, tentative=True), "scope global, duplicate"),
        (address("2001:db8::7", 64, protocol="kernel_lo"), "scope global"),
        (address("fd00::7", 128, scope="200"), "scope 200"),
    ],
    ids=["dhcp", "host-route", "alias", "keepalived", "point-to-point", "metadata", "duplicate", "static-ipv6", "numeric-scope"],
)
def test_other_addresses_are_kept(one, value):
    prefix = f"{one['local']}/{one['prefixlen']}"
    assert read_addresses(listed(one)) == {**LO, f"eth0 {prefix}": value}


@pytest.mark.parametrize(
    "link",
    [
        *("cni0", "flannel.1", "flannel-v6.1", "cilium_host", "cilium_net", "cilium_vxlan", "lxc_health", "cali1a2b3c4d5e6", "tunl0"),
        *("vxlan.calico", "wireguard.cali", "kube-ipvs0", "kube-bridge", "nodelocaldns", "weave", "ovn-k8s-mp0", "antrea-gw0"),
        *("docker0", "br-0a1b2c3d4e5f", "podman1", "nerdctl0", "virbr0", "vnet3", "azv01ab", "eni0a1b2c3d4e5", "veth0@if3"),
    ],
)
def test_networks_of_programs_are_left_out(monkeypatch, link):
    monkeypatch.setattr(host_baseline, "run", lambda *command, strict: listed(address("10.9.8.7"), link=link))
    assert host_baseline.addresses() == LO


@pytest.mark.parametrize("link", ["eth0", "ens5", "ib0", "ibp65s0", "bond0.12", "br0", "br-lan", "enP5p1s0np0", "lxbr1", "idrac", "dummy0"])
def test_networks_of_the_node_are_kept(monkeypatch, link):
    monkeypatch.setattr(host_baseline, "run", lambda *command, strict: listed(address("10.9.8.7"), link=link))
    assert host_baseline.addresses() == {**LO, f"{link} 10.9.8.7/24": "scope global"}


@pytest.mark.parametrize("text", ["", "\n", "[]", "[{}]", "[{},{}]\n", "busybox: unrecognized option: json", '[{"ifname":"lo",'])
def test_listing_without_links_is_refused(text):
    with pytest.raises(ValueError, match=r"listed no link|Expecting|Unterminated"):
        read_addresses(text)


def test_warning_before_the_list_is_skipped():
    assert read_addresses("[WARN] Dump was interrupted and may be inconsistent.\n" + listed()) == LO


@pytest.mark.parametrize(
    ("one", "words"),
    [
        ({"family": "inet", "prefixlen": 24, "scope": "global"}, "an address of eth0"),
        (address("ERR!"), "an address of eth0"),
        (address("192.0.2.8", None), "an address of eth0"),
        (address("192.0.2.8", 77), "an address of eth0"),
        (address("192.0.2.8", scope=""), "the scope of 192.0.2.8/24"),
        ("192.0.2.8", "an address of eth0"),
    ],
    ids=["no-address", "no-number", "no-prefix", "wrong-prefix", "no-scope", "text"],
)
def test_unreadable_address_spoils_no_other(one, words):
    found = read_addresses(listed(one, address("192.0.2.7")))
    assert found["eth0 192.0.2.7/24"] == "scope global" and found[UNREAD].startswith(f"{words} cannot be read: ")
    was = {"addresses": {**LO, "eth0 192.0.2.7/24": "scope global", "eth0 192.0.2.8/24": "scope global"}}
    assert list(differences("lab", "worker0", was, {"addresses": found})) == []
    assert [one.subject for one in differences("lab", "worker0", {"addresses": LO}, {"addresses": found})] == [
        "baseline.addresses eth0 192.0.2.7/24"
    ]


@pytest.mark.parametrize("link", [{"addr_info": []}, {"ifname": 27, "addr_info": []}, {"ifname": "eth1", "addr_info": "x"}, "eth1"])
def test_unreadable_link_spoils_no_other(link):
    found = read_addresses(json.dumps([LOOPBACK, link]))
    assert found.pop(UNREAD).startswith("a link cannot be read: ") and found == LO


WAS = {"addresses": {**LO, "eth0 10.77.0.24/24": "scope global"}}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("lo 10.77.0.16/32", "scope global", ("nothing", "scope global")),
        ("eth0 10.77.0.250/24", "scope global", ("nothing", "scope global")),
        ("eth0 10.77.0.24/24", None, ("scope global", "nothing")),
    ],
    ids=["on-loopback", "second", "missing"],
)
def test_address_by_hand_breaks_the_cluster(name, value, shown):
    now = {key: one for key, one in {**WAS["addresses"], name: value}.items() if one}
    (only,) = differences("lab", "worker0", WAS, {"addresses": now})
    assert (only.subject, only.category) == (f"baseline.addresses {name}", Category.BREAKING)
    assert (only.declared, only.live) == shown


def test_virtual_address_of_the_plan_moves():
    state = {"addresses": {"eth0 10.78.0.9/32": "scope global", "eth0 10.78.0.90/32": "scope global"}, "etc": {"a 10.78.0.9/32": "x"}}
    kept = without_transient(state, (), "10.78.0.9")
    assert kept == {"addresses": {"eth0 10.78.0.90/32": "scope global"}, "etc": {"a 10.78.0.9/32": "x"}}
    assert without_transient(state, ()) == state
