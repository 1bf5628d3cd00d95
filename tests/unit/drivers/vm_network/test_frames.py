"""Length, addresses and flows of Ethernet frames."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.ethernet import BROADCAST, address, ethernet, udp
from support.rows import each_row

from rackwright.drivers.vm.network.frames import exceeds, flow_hash, flow_key, is_group, is_link_local, payload_offset

A, B = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
IPV4, IPV6 = 0x0800, 0x86DD


def packet(
    ports: tuple[int, int] = (50000, 4791), *, ends: tuple[str, str] = ("10.0.0.1", "10.0.0.2"), vlan: int | None = None, **given: int
) -> bytes:
    """Return a frame with UDP; 4791 is the port of RoCEv2."""
    return ethernet(A, B, udp(*ends, ports, **given), kind=IPV6 if ":" in ends[0] else IPV4, vlan=vlan)


@pytest.mark.parametrize(
    ("payload", "vlan", "mtu", "dropped"),
    [(1500, None, 1500, False), (1501, None, 1500, True), (1500, 5, 1500, False), (1501, 5, 1500, True), (4400, None, 9000, False)],
    ids=["mtu", "mtu+1", "tagged-mtu", "tagged-mtu+1", "jumbo"],
)
def test_frame_exceeds_mtu_by_payload(payload: int, vlan: int | None, mtu: int, dropped: bool) -> None:
    assert exceeds(ethernet(A, B, bytes(payload), vlan=vlan), mtu) is dropped


def test_payload_follows_two_tags() -> None:
    inner = ethernet(A, B, bytes(46), vlan=7)
    assert payload_offset(inner[:12] + b"\x88\xa8\x00\x09" + inner[12:]) == 22


def test_payload_offset_of_truncated_tag_is_inside_frame() -> None:
    assert payload_offset(ethernet(A, B, b"", kind=0x8100)) == 14


@pytest.mark.parametrize(("mac", "group"), [(BROADCAST, True), ("33:33:00:00:00:01", True), ("01:00:5e:00:00:fb", True), (A, False)])
def test_group_address(mac: str, group: bool) -> None:
    assert is_group(address(mac)) is group


@pytest.mark.parametrize(
    ("mac", "expected"),
    [
        ("01:80:c2:00:00:00", True),
        ("01:80:c2:00:00:0e", True),
        ("01:80:c2:00:00:0f", True),
        ("01:80:c2:00:00:10", False),
        (BROADCAST, False),
    ],
    ids=["stp", "lldp", "last", "after-last", "broadcast"],
)
def test_link_local_address(mac: str, expected: bool) -> None:
    assert is_link_local(address(mac)) is expected


@pytest.mark.parametrize(
    "other",
    [
        packet((50001, 4791)),
        packet((50000, 4792)),
        packet(protocol=6),
        packet(ends=("10.0.0.3", "10.0.0.2")),
        packet(ends=("10.0.0.1", "10.0.0.3")),
        packet(vlan=5),
    ],
    ids=["source-port", "destination-port", "protocol", "source", "destination", "vlan"],
)
def test_flow_differs_by(other: bytes) -> None:
    assert flow_key(packet()) != flow_key(other)


@pytest.mark.parametrize("ends", [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")], ids=["ipv4", "ipv6"])
def test_flow_is_the_same_for_other_data(ends: tuple[str, str]) -> None:
    first = packet(ends=ends)
    assert flow_key(first) == flow_key(first[:-9] + b"other one") and flow_key(first) != flow_key(packet((1, 2), ends=ends))


def test_flow_reads_ports_after_ipv4_options() -> None:
    assert flow_key(packet(options=2)) == flow_key(packet()) and flow_key(packet((9, 9), options=2)) != flow_key(packet(options=2))


@pytest.mark.parametrize("fragment", [0x2000, 0x0010], ids=["first", "later"])
def test_fragments_of_packet_are_one_flow(fragment: int) -> None:
    """The bytes at the place of the ports are data in a later fragment."""
    assert flow_key(packet((1, 2), fragment=fragment)) == flow_key(packet((3, 4), fragment=0x2000))


def test_vlan_priority_does_not_split_flow() -> None:
    assert flow_key(packet(vlan=5)) == flow_key(packet(vlan=5 | 3 << 13))


def test_protocol_without_ports_is_flow_of_addresses() -> None:
    assert flow_key(packet((1, 2), protocol=1)) == flow_key(packet((3, 4), protocol=1))


def test_other_frames_are_flows_of_addresses_and_type() -> None:
    assert flow_key(ethernet(A, B, b"one")) == flow_key(ethernet(A, B, b"two")) != flow_key(ethernet(B, A, b"one"))


@each_row("length", range(14, 40))
def test_truncated_packet_has_flow(length: int) -> None:
    assert flow_key(packet()[:length])


def test_flow_hash_is_the_same_in_each_process() -> None:
    code = f"from rackwright.drivers.vm.network.frames import flow_hash; print(flow_hash({packet()!r}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == flow_hash(packet())
